//! Finds out which keys of one server are locks. The values of other keys are not read.

use std::sync::Arc;

use redis::{Cmd, ErrorKind, FromRedisValue, Pipeline, ServerErrorKind, Value};

use super::outcome::{self, Failure, UNAVAILABLE};
use super::row::Row;
use leasehold::LockClient;
use leasehold::admin::{Connection, LockKeys, Server, ServerError};
use leasehold::{Hint, Permission};

/// The reply to one command, or its error reply.
type Reply = Result<Value, ServerError>;

/// What a key of a server is.
pub(super) enum Found {
    Lock(Row),
    Nothing,
    /// The lock was released while it was read.
    Gone,
    NoLock,
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

    pub(super) fn decode<T: FromRedisValue>(&self, reply: Value) -> outcome::Result<T> {
        redis::from_redis_value(reply).map_err(|error| {
            Failure::new(
                UNAVAILABLE,
                format!("Redis at {} failed: {error}", self.server),
            )
        })
    }

    /// Those of the keys that are locks. This includes keys that are still moving to this server.
    pub(super) fn locks(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Row>, ServerError> {
        let mut rows = Vec::new();
        let arriving = self.find_locks(keys, false, &mut rows)?;
        if !arriving.is_empty() {
            self.find_locks(&arriving, true, &mut rows)?;
        }
        Ok(rows)
    }

    /// Reads one key; `asking` if it is moving to this server. An error reply that tells of
    /// no type is an error.
    pub(super) fn find(&mut self, key: &[u8], asking: bool) -> Result<Found, ServerError> {
        let mut replies = self
            .run_all(vec![command("HLEN", key)], asking)?
            .into_iter();
        match replies.next().transpose() {
            Ok(Some(Value::Int(0)) | None) => return Ok(Found::Nothing),
            Ok(Some(Value::Int(1))) => {}
            Ok(_) => return Ok(Found::NoLock),
            Err(error) => return no_lock_or(error),
        }
        let mut replies = self.run_all(self.reads(key).into(), asking)?.into_iter();
        let (Some(fields), Some(left), token) = (replies.next(), replies.next(), replies.next())
        else {
            return Ok(Found::Nothing);
        };
        let (fields, left) = match fields.and_then(|fields| Ok((fields, left?))) {
            Ok(replies) => replies,
            Err(error) => return no_lock_or(error),
        };
        let nothing = fields.as_sequence().is_some_and(<[Value]>::is_empty);
        if nothing || left == Value::Int(-2) {
            return Ok(Found::Gone);
        }
        let row = self.row(key, fields, left, token, asking);
        Ok(row.map_or(Found::NoLock, Found::Lock))
    }

    /// Finds locks. Returns the keys that need `asking`.
    fn find_locks(
        &mut self,
        keys: &[Vec<u8>],
        asking: bool,
        rows: &mut Vec<Row>,
    ) -> Result<Vec<Vec<u8>>, ServerError> {
        let mut single = Vec::new();
        let mut arriving = Vec::new();
        let lengths = keys.iter().map(|key| command("HLEN", key)).collect();
        for (key, length) in keys.iter().zip(self.run_all(lengths, asking)?) {
            match length.map_err(Refusal::of) {
                Ok(Value::Int(1)) => single.push(key),
                Err(Refusal::Moved) if !asking => arriving.push(key.clone()),
                Ok(_) | Err(Refusal::Moved | Refusal::NoLock) => {}
                Err(Refusal::Failure(error)) => return Err(error),
            }
        }
        let reads = single.iter().flat_map(|key| self.reads(key)).collect();
        let mut replies = self.run_all(reads, asking)?.into_iter();
        for key in single {
            let (Some(fields), Some(left), token) =
                (replies.next(), replies.next(), replies.next())
            else {
                break;
            };
            match fields
                .and_then(|fields| Ok((fields, left?)))
                .map_err(Refusal::of)
            {
                Ok((fields, left)) => {
                    let row = self.row(key, fields, left, token, asking);
                    rows.extend(row.filter(Row::is_certainly_a_lock));
                }
                Err(Refusal::Moved | Refusal::NoLock) => {}
                Err(Refusal::Failure(error)) => return Err(error),
            }
        }
        Ok(arriving)
    }

    /// The commands whose replies describe a lock.
    fn reads(&self, key: &[u8]) -> [Cmd; 3] {
        let keys = LockKeys::new(self.client, &String::from_utf8_lossy(key));
        [
            command("HGETALL", key),
            command("PTTL", key),
            command("GET", keys.last_token.as_bytes()),
        ]
    }

    /// The lock that the replies to the [commands](Self::reads) describe.
    fn row(
        &self,
        key: &[u8],
        fields: Value,
        left: Value,
        token: Option<Reply>,
        asking: bool,
    ) -> Option<Row> {
        let token = token.and_then(Result::ok);
        // A token that is missing here may still be at the previous server.
        let token = token.filter(|token| !asking || *token != Value::Nil);
        Row::decode(key, &self.server, fields, left, token)
    }

    /// The replies; `asking` for keys of a slot that is still moving to this server.
    fn run_all(&mut self, commands: Vec<Cmd>, asking: bool) -> Result<Vec<Reply>, ServerError> {
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
}

fn no_lock_or(error: ServerError) -> Result<Found, ServerError> {
    if is_wrong_type(&error) {
        return Ok(Found::NoLock);
    }
    Err(error)
}

fn command(name: &str, key: &[u8]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(key);
    command
}

fn is_wrong_type(error: &ServerError) -> bool {
    error.cause.code() == Some("WRONGTYPE")
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
