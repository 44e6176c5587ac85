//! Finds out which keys of one server are locks or semaphores. The values of other keys are not
//! read, except for numbers.

mod hashes;
mod numbers;
mod shares;

pub(super) use shares::Share;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, ErrorKind, FromRedisValue, Pipeline, ServerErrorKind, Value};

use super::kinds::Kind;
use super::outcome::{self, Failure, UNAVAILABLE};
use super::row::Row;
use leasehold::LockClient;
use leasehold::admin::{ConnectedClients, Connection, LockKeys, Server, ServerError};
use leasehold::{Hint, Permission};

/// The reply to one command, or its error reply.
type Reply<T = Value> = Result<T, ServerError>;

/// What a key of a server is.
pub(super) enum Found {
    Held(Row),
    Nothing,
    /// The lock was released while it was read.
    Gone,
    /// Neither a lock nor a semaphore.
    Other,
}

/// Reads what each key is; `asking` if the keys are moving to this server.
type Read<'a> = fn(&mut Probe<'a>, &[&[u8]], bool) -> Result<Vec<Reply<Found>>, ServerError>;

/// A connection that looks at keys of one server.
pub(super) struct Probe<'a> {
    client: &'a LockClient,
    server: Arc<str>,
    connection: Connection,
}

impl<'a> Probe<'a> {
    pub(super) fn connect(client: &'a LockClient, server: &Server) -> Result<Self, ServerError> {
        Ok(Self {
            client,
            server: server.name().into(),
            connection: server.connect()?,
        })
    }

    pub(super) fn run(&mut self, command: &Cmd) -> Reply {
        self.connection.run(command)
    }

    /// The clients that are connected to the server; none if the user may not list them, or if
    /// there is no reply.
    pub(super) fn clients(&mut self) -> ConnectedClients {
        self.connection.clients().unwrap_or_default()
    }

    pub(super) fn decode<T: FromRedisValue>(&self, reply: Value) -> outcome::Result<T> {
        let failed = |error| format!("Redis at {} failed: {error}", self.server);
        redis::from_redis_value(reply).map_err(|error| Failure::new(UNAVAILABLE, failed(error)))
    }

    /// Reads one key; `asking` if it is moving to this server. An error reply that tells of
    /// no type is an error.
    pub(super) fn find(&mut self, key: &[u8], asking: bool) -> Reply<Found> {
        match self.read_one(Self::read_hashes, key, asking) {
            Err(error) if is_wrong_type(&error) => {}
            found => return found,
        }
        match self.read_one(Self::read_semaphores, key, asking) {
            Ok(found @ Found::Held(_)) => return Ok(found),
            Err(error) if !error.is_reply() => return Err(error),
            _ => {}
        }
        match self.read_one(Self::read_number, key, asking) {
            Err(error) if is_wrong_type(&error) => Ok(Found::Other),
            found => found,
        }
    }

    fn read_one(&mut self, read: Read<'a>, key: &[u8], asking: bool) -> Reply<Found> {
        read(self, &[key], asking)?
            .pop()
            .unwrap_or(Ok(Found::Other))
    }

    /// Those of the keys that are locks.
    pub(super) fn locks(&mut self, keys: &[&[u8]]) -> Result<Vec<Row>, ServerError> {
        self.rows(keys, Self::read_hashes)
    }

    /// The semaphores with these names of which a permit is leased.
    pub(super) fn semaphores(&mut self, names: &[&[u8]]) -> Result<Vec<Row>, ServerError> {
        self.rows(names, Self::read_semaphores)
    }

    /// Those of the keys that are numbers. They may be semaphores, latches, or data of other
    /// programs.
    pub(super) fn numbers(&mut self, keys: &[&[u8]]) -> Result<Vec<Row>, ServerError> {
        self.rows(keys, Self::read_numbers)
    }

    /// What is found under these keys. This includes keys that are still moving to this server.
    fn rows(&mut self, keys: &[&[u8]], read: Read<'a>) -> Result<Vec<Row>, ServerError> {
        let (mut rows, mut keys) = (Vec::new(), keys.to_vec());
        for asking in [false, true] {
            let mut moved = Vec::new();
            for (key, found) in keys.iter().zip(read(self, &keys, asking)?) {
                match found {
                    Ok(Found::Held(row)) if row.kind.is_certain() => rows.push(row),
                    Ok(_) => {}
                    Err(error) if is_moved(&error) => moved.push(*key),
                    Err(error) if is_no_lock(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            keys = moved;
        }
        Ok(rows)
    }

    fn row(&self, name: &[u8], kind: Kind, time_to_live: Option<Duration>) -> Found {
        Found::Held(Row {
            name: name.into(),
            kind,
            time_to_live,
            server: self.server.clone(),
            holder: None,
        })
    }

    fn keys(&self, key: &[u8]) -> LockKeys {
        LockKeys::new(self.client, &String::from_utf8_lossy(key))
    }

    /// The reply to one command; `asking` for a key of a slot that is still moving to this server.
    pub(super) fn run_one(&mut self, command: Cmd, asking: bool) -> Reply {
        let [reply] = self
            .run_each(&[()], asking, |()| [command.clone()])?
            .remove(0);
        reply
    }

    /// The replies to the commands about each item, all sent at once.
    fn run_each<T, const N: usize>(
        &mut self,
        items: &[T],
        asking: bool,
        commands: impl Fn(&T) -> [Cmd; N],
    ) -> Result<Vec<[Reply; N]>, ServerError> {
        let mut all = Pipeline::new();
        for command in items.iter().flat_map(commands) {
            if asking {
                all.cmd("ASKING");
            }
            all.add_command(command);
        }
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let each = if asking { 2 } else { 1 };
        let replies = self.connection.run_all(&all)?.into_iter();
        let mut replies = replies.skip(each - 1).step_by(each);
        let mut next = || replies.next().unwrap_or(Ok(Value::Nil));
        let of_each = items.iter().map(|_| std::array::from_fn(|_| next()));
        Ok(of_each.collect())
    }

    /// The server's clock in milliseconds; `None` if the user may not read it.
    fn clock(&mut self) -> Result<Option<i64>, ServerError> {
        let time = match self.run(&redis::cmd("TIME")) {
            Err(error) if !error.is_reply() => return Err(error),
            reply => reply.ok().and_then(decoded::<(i64, i64)>),
        };
        Ok(time.map(|(seconds, micros)| seconds * 1_000 + micros / 1_000))
    }
}

pub(super) fn command(name: &str, key: impl AsRef<[u8]>) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(key.as_ref());
    command
}

fn decoded<T: FromRedisValue>(value: Value) -> Option<T> {
    redis::from_redis_value(value).ok()
}

/// The time to live by the reply to PTTL: `None` if there is no such key, `Some(None)` if it never
/// ends.
fn time_to_live(reply: Value) -> Option<Option<Duration>> {
    match decoded::<i64>(reply)? {
        -2 => None,
        left => Some(u64::try_from(left).ok().map(Duration::from_millis)),
    }
}

/// True if another server has the key, or is about to.
fn is_moved(error: &ServerError) -> bool {
    let kind = error.cause.kind();
    matches!(
        kind,
        ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask)
    )
}

fn is_wrong_type(error: &ServerError) -> bool {
    error.cause.code() == Some("WRONGTYPE")
}

/// True if the key is of another type, or this user may not read it.
fn is_no_lock(error: &ServerError) -> bool {
    is_wrong_type(error) || error.hint.as_deref() == Some(&Hint::Grant(Permission::Key))
}
