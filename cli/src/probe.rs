//! Which keys are locks, asked of one server. What is no lock is not read.

use std::sync::Arc;

use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};

use super::row::Row;
use crate::base::key::LockKey;
use crate::error::Permission;
use crate::request::Talk;
use crate::transport::permission::missing_permission;
use crate::transport::retry_action::RetryAction;

/// What a server knows of a key.
pub(super) enum Found {
    Lock(Row),
    Nothing,
    /// It was given back while it was looked at.
    Gone,
    NoLock,
}

/// Those of the keys that are locks, those among them that are still on their way to this server.
pub(super) fn locks(talk: &mut Talk, server: &Arc<str>, keys: &[Vec<u8>]) -> RedisResult<Vec<Row>> {
    let mut rows = Vec::new();
    let arriving = look(talk, server, keys, false, &mut rows)?;
    if !arriving.is_empty() {
        look(talk, server, &arriving, true, &mut rows)?;
    }
    Ok(rows)
}

/// What is under one key; `asking` where it is on its way to this server. An error reply that tells of no type
/// is an error.
pub(super) fn find(
    talk: &mut Talk,
    server: &Arc<str>,
    key: &[u8],
    asking: bool,
) -> RedisResult<Found> {
    let mut replies = ask(talk, vec![command("HLEN", key)], asking)?.into_iter();
    match replies.next().transpose() {
        Ok(Some(Value::Int(0)) | None) => return Ok(Found::Nothing),
        Ok(Some(Value::Int(1))) => {}
        Ok(_) => return Ok(Found::NoLock),
        Err(error) => return wrong_type(error),
    }
    let mut replies = ask(talk, questions(key).into(), asking)?.into_iter();
    let (Some(fields), Some(left), token) = (replies.next(), replies.next(), replies.next()) else {
        return Ok(Found::Nothing);
    };
    let (fields, left) = match fields.and_then(|fields| Ok((fields, left?))) {
        Ok(told) => told,
        Err(error) => return wrong_type(error),
    };
    let nothing = fields.as_sequence().is_some_and(<[Value]>::is_empty);
    if nothing || left == Value::Int(-2) {
        return Ok(Found::Gone);
    }
    let row = row(key, server, fields, left, token, asking);
    Ok(row.map_or(Found::NoLock, Found::Lock))
}

fn wrong_type(error: RedisError) -> RedisResult<Found> {
    match RetryAction::on(&error) {
        RetryAction::WrongType => Ok(Found::NoLock),
        _ => Err(error),
    }
}

/// Finds locks; gives back the keys that have to be asked for with `asking`.
fn look(
    talk: &mut Talk,
    server: &Arc<str>,
    keys: &[Vec<u8>],
    asking: bool,
    rows: &mut Vec<Row>,
) -> RedisResult<Vec<Vec<u8>>> {
    let mut single = Vec::new();
    let mut arriving = Vec::new();
    let lengths = keys.iter().map(|key| command("HLEN", key)).collect();
    for (key, length) in keys.iter().zip(ask(talk, lengths, asking)?) {
        match length.map_err(Refusal::of) {
            Ok(Value::Int(1)) => single.push(key),
            Err(Refusal::Moved) if !asking => arriving.push(key.clone()),
            Ok(_) | Err(Refusal::Moved | Refusal::NoLock) => {}
            Err(Refusal::Failure(error)) => return Err(error),
        }
    }
    let questions = single.iter().flat_map(|key| questions(key)).collect();
    let mut replies = ask(talk, questions, asking)?.into_iter();
    for key in single {
        let (Some(fields), Some(left), token) = (replies.next(), replies.next(), replies.next())
        else {
            break;
        };
        match fields
            .and_then(|fields| Ok((fields, left?)))
            .map_err(Refusal::of)
        {
            Ok((fields, left)) => {
                let row = row(key, server, fields, left, token, asking);
                rows.extend(row.filter(Row::is_certainly_a_lock));
            }
            Err(Refusal::Moved | Refusal::NoLock) => {}
            Err(Refusal::Failure(error)) => return Err(error),
        }
    }
    Ok(arriving)
}

/// What tells of a lock.
fn questions(key: &[u8]) -> [Cmd; 3] {
    let token = LockKey::new("", &String::from_utf8_lossy(key)).last_token();
    [
        command("HGETALL", key),
        command("PTTL", key),
        command("GET", token.as_bytes()),
    ]
}

/// The lock that the replies to the [`questions`] tell of.
fn row(
    key: &[u8],
    server: &Arc<str>,
    fields: Value,
    left: Value,
    token: Option<RedisResult<Value>>,
    asking: bool,
) -> Option<Row> {
    let token = token.and_then(Result::ok);
    // What is missing here may still be where the lock was.
    let token = token.filter(|token| !asking || *token != Value::Nil);
    Row::decode(key, server, fields, left, token)
}

fn command(name: &str, key: &[u8]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(key);
    command
}

/// The replies; `asking` for keys of a slot that is still on its way to this server.
fn ask(talk: &mut Talk, commands: Vec<Cmd>, asking: bool) -> RedisResult<Vec<RedisResult<Value>>> {
    let mut all = Pipeline::with_capacity(commands.len());
    for command in commands {
        if asking {
            all.cmd("ASKING");
        }
        all.add_command(command);
    }
    let replies = talk.ask_all(&all)?.into_iter();
    let each = if asking { 2 } else { 1 };
    Ok(replies.skip(each - 1).step_by(each).collect())
}

/// What a refusal to tell of a key means.
enum Refusal {
    /// Another server has it, or is about to.
    Moved,
    /// It is of another type, or none of this user's business.
    NoLock,
    /// The server tells of no key.
    Failure(RedisError),
}

impl Refusal {
    fn of(error: RedisError) -> Self {
        match RetryAction::on(&error) {
            RetryAction::Redirect => Self::Moved,
            RetryAction::WrongType => Self::NoLock,
            _ if missing_permission(&error) == Some(Permission::Key) => Self::NoLock,
            _ => Self::Failure(error),
        }
    }
}
