//! Finds out which keys of one server are locks or semaphores. The values of other keys are not
//! read, except for numbers.

mod keys;
mod shares;

use std::time::Duration;

use redis::{Cmd, ErrorKind, Pipeline, ServerErrorKind, ToRedisArgs, Value};

use super::kinds::{Kind, decoded};
use super::row::Row;
use leasehold::LockClient;
use leasehold::admin::{ConnectedClients, Connection, Server, ServerError};
use leasehold::{Hint, Permission};

/// The reply to one command, or its error reply.
pub(super) type Reply<T = Value> = Result<T, ServerError>;

/// What a key of a server is.
pub(super) enum Found {
    Held(Row),
    /// There is no such key, or the lock was released while it was read.
    Nothing,
    /// Neither a lock nor a semaphore, or not of the type that was expected.
    Other,
}

/// Reads what each key is. The outer error is that of the connection.
pub(super) type Read<'a> = fn(&mut Probe<'a>, &[&str]) -> Result<Vec<Reply<Found>>, ServerError>;

/// A connection that looks at keys of one server.
#[derive(Debug)]
pub(super) struct Probe<'a> {
    client: &'a LockClient,
    pub(super) server: Server,
    /// True if the keys are moving to this server.
    asking: bool,
    connection: Connection,
}

impl<'a> Probe<'a> {
    /// `asking`: the keys are moving to this server.
    pub(super) fn connect(
        client: &'a LockClient,
        server: &Server,
        asking: bool,
    ) -> Result<Self, ServerError> {
        Ok(Self {
            client,
            server: server.clone(),
            asking,
            connection: server.connect()?,
        })
    }

    /// The clients that are connected to the server; none if the user may not list them, or if
    /// there is no reply.
    pub(super) fn clients(&mut self) -> ConnectedClients {
        self.connection.clients().unwrap_or_default()
    }

    /// Reads one key. An error reply that tells of no type is an error.
    pub(super) fn find(&mut self, key: &str) -> Reply<Found> {
        let reads: [Read<'a>; 3] = [Self::hashes, Self::semaphores, Self::number];
        for read in reads {
            match read(self, &[key])?.pop() {
                Some(Ok(Found::Other)) | None => {}
                Some(Err(error)) if is_wrong_type(&error) => {}
                Some(found) => return found,
            }
        }
        Ok(Found::Other)
    }

    /// The locks, semaphores or numbers under these keys. This includes keys that are still moving
    /// to this server.
    pub(super) fn rows(&mut self, keys: &[&str], read: Read<'a>) -> Result<Vec<Row>, ServerError> {
        let (mut rows, mut keys) = (Vec::new(), keys.to_vec());
        for asking in [false, true] {
            self.asking = asking;
            let mut moved = Vec::new();
            for (key, found) in keys.iter().zip(read(self, &keys)?) {
                match found {
                    Ok(Found::Held(row)) => rows.push(row),
                    Ok(_) => {}
                    Err(error) if is_moved(&error) => moved.push(*key),
                    Err(error) if is_wrong_type(&error) => {}
                    // This user may not read the key.
                    Err(error) if error.hint.as_deref() == Some(&Hint::Grant(Permission::Key)) => {}
                    Err(error) => return Err(error),
                }
            }
            keys = moved;
        }
        self.asking = false;
        Ok(rows)
    }

    fn row(&self, name: &str, kind: Kind, time_to_live: Option<Duration>) -> Found {
        Found::Held(Row {
            name: name.into(),
            kind,
            time_to_live,
            server: self.server.name().into(),
            holder: None,
        })
    }

    /// The reply to one command.
    pub(super) fn run(&mut self, command: &Cmd) -> Reply {
        let [reply] = self.run_each(&[()], |()| [command.clone()])?.remove(0);
        reply
    }

    /// The replies to the commands about each item, all sent at once.
    fn run_each<T, const N: usize>(
        &mut self,
        items: &[T],
        commands: impl Fn(&T) -> [Cmd; N],
    ) -> Result<Vec<[Reply; N]>, ServerError> {
        let mut all = Pipeline::new();
        for command in items.iter().flat_map(commands) {
            if self.asking {
                all.cmd("ASKING");
            }
            all.add_command(command);
        }
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let each = if self.asking { 2 } else { 1 };
        let replies = self.connection.run_all(&all)?.into_iter();
        let mut replies = replies.skip(each - 1).step_by(each);
        let mut next = || replies.next().unwrap_or(Ok(Value::Nil));
        let of_each = items.iter().map(|_| std::array::from_fn(|_| next()));
        Ok(of_each.collect())
    }

    /// The server's clock in milliseconds; `None` if the user may not read it.
    fn clock(&mut self) -> Result<Option<i64>, ServerError> {
        let time = ask(&mut self.connection, &redis::cmd("TIME"))?.ok();
        let time: Option<(i64, i64)> = time.and_then(decoded);
        Ok(time.map(|(seconds, micros)| seconds * 1_000 + micros / 1_000))
    }
}

/// A command of these words.
pub(super) fn command(words: impl ToRedisArgs) -> Cmd {
    Cmd::new().arg(words).clone()
}

/// The reply or error reply. An error of the connection is the outer error.
pub(super) fn ask(connection: &mut Connection, command: &Cmd) -> Result<Reply, ServerError> {
    match connection.run(command) {
        Err(error) if !error.is_reply() => Err(error),
        reply => Ok(reply),
    }
}

fn is_wrong_type(error: &ServerError) -> bool {
    error.cause.code() == Some("WRONGTYPE")
}

/// True if another server has the key, or is about to.
fn is_moved(error: &ServerError) -> bool {
    use ServerErrorKind::{Ask, Moved};
    matches!(error.cause.kind(), ErrorKind::Server(Moved | Ask))
}

/// The time to live by the reply to PTTL: `None` if there is no such key, `Some(None)` if it never
/// ends.
fn time_to_live(reply: Value) -> Option<Option<Duration>> {
    match decoded::<i64>(reply)? {
        -2 => None,
        left => Some(u64::try_from(left).ok().map(Duration::from_millis)),
    }
}
