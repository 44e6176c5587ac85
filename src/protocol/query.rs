//! The request of a query: commands that Redis executes if, and only if, locks are still held.

use std::time::Duration;

use redis::{RedisResult, Value};

use super::commands::Command;
use super::{Kind, unexpected};
use crate::base::{Family, LockKey, OwnerId, excerpt};
use crate::error::LostReason;
use crate::script::{self, Call};

/// For how long Redis keeps the number of a query: longer than a copy is usually under way, and
/// longer than any copy if one may be.
const KEPT: Duration = Duration::from_secs(120);
const KEPT_AFTER_UNCLEAR: Duration = Duration::from_secs(24 * 3600);

/// A lock that must be held, and the number of the query among those of its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queried<'a> {
    pub(crate) key: &'a LockKey,
    pub(crate) kind: &'static Kind,
    pub(crate) owner: &'a OwnerId,
    pub(crate) number: u64,
}

impl Queried<'_> {
    /// The key of the number of the last query. Locks with several owners have one for each.
    fn number_key(self) -> String {
        let owner = match self.kind.family {
            // The first id of several permits is enough: no id is used again.
            Family::Semaphore => self.owner.permit_ids().next(),
            _ if self.kind.is_shared => Some(self.owner.as_str()),
            _ => None,
        };
        let owner = owner.unwrap_or("query");
        self.key.suffixed(&format!("leasehold:{owner}"))
    }
}

/// Executes `commands` if all `locks` are held. In a cluster, these are their `keys`. An earlier
/// query may still be executed if this one `follows_unclear`.
pub(crate) fn query(
    locks: &[Queried<'_>],
    keys: &[Vec<u8>],
    commands: &[Command<'_>],
    follows_unclear: bool,
) -> Call {
    let kept = match follows_unclear {
        true => KEPT_AFTER_UNCLEAR,
        false => KEPT,
    };
    let mut call = Call::new(&script::QUERY);
    for lock in locks {
        call = call.key(&lock.key.owners_key()).key(&lock.number_key());
    }
    call = keys.iter().fold(call, |call, key| call.key_in_bytes(key));
    call = call.arg(locks.len().to_string());
    call = call.arg(kept.as_millis().to_string());
    for lock in locks {
        call = call
            .arg((lock.kind.written)(lock.owner))
            .arg(lock.number.to_string())
            .flag(lock.key.family() == Family::Semaphore);
    }
    for command in commands {
        call = call.arg(command.len().to_string());
        call = command.iter().fold(call, Call::arg);
    }
    call.not_repeatable()
}

/// The reply to a query.
#[derive(Debug, PartialEq)]
pub(crate) enum QueryReply {
    /// The replies of the commands. Some may be errors.
    Executed(Vec<Value>),
    /// Nothing was executed: the lock at this index is not held.
    Lost(usize, LostReason),
    /// This copy was not executed. Another one of this query, or a later query, was.
    Late,
}

impl QueryReply {
    pub(crate) fn of(reply: Value) -> RedisResult<Self> {
        let index = |at: i64| usize::try_from(at.unsigned_abs() - 1).unwrap_or(usize::MAX);
        match reply {
            Value::Nil => Ok(Self::Late),
            Value::Int(at @ 1..) => Ok(Self::Lost(index(at), LostReason::Deleted)),
            Value::Int(at @ ..=-1) => Ok(Self::Lost(index(at), LostReason::Taken)),
            Value::Array(parts) => {
                let mut parts = parts.into_iter();
                let Some(Value::Array(mut replies)) = parts.next() else {
                    return Err(unexpected(&Value::Nil));
                };
                while let (Some(Value::Int(at)), Some(error)) = (parts.next(), parts.next()) {
                    let reply = replies.get_mut(index(at));
                    let reply = reply.ok_or_else(|| unexpected(&error))?;
                    *reply = failure(&error)?;
                }
                Ok(Self::Executed(replies))
            }
            other => Err(unexpected(&other)),
        }
    }
}

/// The error reply with this text.
fn failure(text: &Value) -> RedisResult<Value> {
    let Value::BulkString(text) = text else {
        return Err(unexpected(text));
    };
    let text = String::from_utf8_lossy(text).replace(['\r', '\n'], " ");
    redis::parse_redis_value(format!("-{}\r\n", excerpt(format_args!("{text}"))).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_decoded() {
        let text = |text: &str| Value::BulkString(text.into());
        let both = Value::Array(vec![Value::Okay, Value::Nil]);
        let failed = vec![both, Value::Int(2), text("WRONGTYPE of\r\nthe key")];
        let QueryReply::Executed(replies) = QueryReply::of(Value::Array(failed)).unwrap() else {
            panic!("it was executed");
        };
        assert_eq!(replies[0], Value::Okay);
        let error = replies[1].clone().extract_error().unwrap_err();
        assert_eq!(
            (error.code(), error.detail()),
            (Some("WRONGTYPE"), Some("of  the key"))
        );
        for (reply, expected) in [
            (Value::Nil, QueryReply::Late),
            (Value::Int(2), QueryReply::Lost(1, LostReason::Deleted)),
            (Value::Int(-1), QueryReply::Lost(0, LostReason::Taken)),
        ] {
            assert_eq!(QueryReply::of(reply).unwrap(), expected);
        }
        let odd = Value::Array(vec![Value::Array(vec![]), Value::Int(1), text("ERR")]);
        for odd in [Value::Okay, Value::Int(0), Value::Array(vec![]), odd] {
            assert!(QueryReply::of(odd.clone()).is_err(), "{odd:?}");
        }
    }
}
