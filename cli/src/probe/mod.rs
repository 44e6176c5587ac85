//! Finds out which keys of one server are locks or semaphores. The values of other keys are not
//! read, except for numbers.

mod hashes;
mod permits;

pub(super) use permits::lease_left;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, ErrorKind, FromRedisValue, Pipeline, ServerErrorKind, Value};

use super::outcome::{self, Failure, UNAVAILABLE};
use super::row::Row;
use leasehold::LockClient;
use leasehold::admin::{ConnectedClients, Connection, LockKeys, Server, ServerError};
use leasehold::{Hint, Permission};

/// The reply to one command, or its error reply.
type Reply = Result<Value, ServerError>;

/// What a key of a server is.
pub(super) enum Found {
    Held(Row),
    Nothing,
    /// The lock was released while it was read.
    Gone,
    /// Neither a lock nor a semaphore.
    Other,
}

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
        redis::from_redis_value(reply).map_err(|error| {
            Failure::new(
                UNAVAILABLE,
                format!("Redis at {} failed: {error}", self.server),
            )
        })
    }

    /// Reads one key; `asking` if it is moving to this server. An error reply that tells of
    /// no type is an error.
    pub(super) fn find(&mut self, key: &[u8], asking: bool) -> Result<Found, ServerError> {
        let hash = self.read_hashes(&[key], asking)?.into_iter().next();
        match hash.unwrap_or(Ok(Found::Nothing)) {
            Err(error) if is_wrong_type(&error) => self.find_number(key, asking),
            found => found,
        }
    }

    pub(super) fn keys(&self, key: &[u8]) -> LockKeys {
        LockKeys::new(self.client, &String::from_utf8_lossy(key))
    }

    /// The replies; `asking` for keys of a slot that is still moving to this server.
    pub(super) fn run_all(
        &mut self,
        commands: Vec<Cmd>,
        asking: bool,
    ) -> Result<Vec<Reply>, ServerError> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let mut all = Pipeline::with_capacity(commands.len());
        for command in commands {
            if asking {
                all.cmd("ASKING");
            }
            all.add_command(command);
        }
        let replies = self.connection.run_all(&all)?.into_iter();
        let each = if asking { 2 } else { 1 };
        Ok(replies.skip(each - 1).step_by(each).collect())
    }

    /// The server's clock in milliseconds; `None` if the user may not read it.
    pub(super) fn clock(&mut self) -> Result<Option<i64>, ServerError> {
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

pub(super) fn decoded<T: FromRedisValue>(value: Value) -> Option<T> {
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

fn is_wrong_type(error: &ServerError) -> bool {
    error.cause.code() == Some("WRONGTYPE")
}

fn is_forbidden(error: &ServerError) -> bool {
    matches!(error.hint.as_deref(), Some(Hint::Grant(_)))
}

/// What an error reply about one key means.
enum Refusal {
    /// Another server has it, or is about to.
    Moved,
    /// It is of another type, or this user may not read it.
    NoLock,
    /// It is not about this key.
    Failure(ServerError),
}

impl Refusal {
    fn of(error: ServerError) -> Self {
        let no_key = Hint::Grant(Permission::Key);
        match error.cause.kind() {
            ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask) => Self::Moved,
            _ if is_wrong_type(&error) || error.hint.as_deref() == Some(&no_key) => Self::NoLock,
            _ => Self::Failure(error),
        }
    }
}
