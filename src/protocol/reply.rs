//! The meaning of replies that all kinds of locks share.

use std::time::Duration;

use redis::{ErrorKind, FromRedisValue, RedisError, RedisResult, Value};

use super::fair::queue_keys;
use crate::base::{Family, List, LockKey};
use crate::error::LostReason;

/// Redis' reply about a grant of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Redis had the lock for this client, and executed the request.
    Done {
        /// After a release: the number of clients that received the message on the channel for
        /// releases; `None` if there was no message, because readers are left.
        listeners: Option<u32>,
        /// After a release: a client that waits in the line of the lock was called.
        is_called: bool,
    },
    Lost(LostReason),
}

impl Verdict {
    pub(crate) fn is_done(self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// True if the script has called a client in the line of the lock.
    pub(crate) fn has_called(self) -> bool {
        matches!(
            self,
            Self::Done {
                is_called: true,
                ..
            }
        )
    }
}

pub(crate) fn verdict(reply: &Value) -> RedisResult<Verdict> {
    match reply {
        Value::Int(0) => Ok(Verdict::Lost(LostReason::Deleted)),
        Value::Int(-1) => Ok(Verdict::Lost(LostReason::Taken)),
        Value::Int(done @ 1..) => Ok(Verdict::Done {
            listeners: Some(u32::try_from((done - 1) / 2).unwrap_or(u32::MAX)),
            is_called: done % 2 == 0,
        }),
        Value::Int(unpublished @ (-2 | -3)) => Ok(Verdict::Done {
            listeners: None,
            is_called: *unpublished == -3,
        }),
        // Nothing is there to give away.
        Value::Array(parts) if parts.len() == 3 => verdict(&parts[0]),
        other => Err(unexpected(other)),
    }
}

/// The verdicts about the `count` locks of a call.
pub(crate) fn verdicts(reply: &Value, count: usize) -> RedisResult<List<Verdict>> {
    each(reply, count, verdict)
}

/// The replies to the looks at `count` lines.
pub(crate) fn look_replies(reply: &Value, count: usize) -> RedisResult<List<LookReply>> {
    each(reply, count, |reply| match reply {
        Value::Int(-1) => Ok(LookReply::Ask),
        Value::Int(0) => Ok(LookReply::Nothing),
        Value::Int(millis @ 1..) => {
            let after = Duration::from_millis(millis.unsigned_abs());
            Ok(LookReply::LookAfter(after))
        }
        other => Err(unexpected(other)),
    })
}

/// The parts of the reply to a call for `count` locks. A call for one may reply without a list.
fn each<T>(
    reply: &Value,
    count: usize,
    decode: fn(&Value) -> RedisResult<T>,
) -> RedisResult<List<T>> {
    match reply {
        Value::Array(replies) if replies.len() == count => replies.iter().map(decode).collect(),
        reply if count == 1 => Ok(List::from_buf([decode(reply)?])),
        other => Err(unexpected(other)),
    }
}

/// The reply to a look at the line of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookReply {
    /// The thread has to ask: its client has no place in the line, the line cannot be used, or the
    /// client has to listen to the channel for releases.
    Ask,
    /// No call is without an answer.
    Nothing,
    LookAfter(Duration),
}

/// The state of a lock in Redis, as
/// [`LockClient::inspect`](crate::LockClient::inspect) returns it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockStatus {
    /// The owner id, `<client uuid>:<number>`; `None` if the lock is free.
    /// [`LockClient::holder`](crate::LockClient::holder) finds its process. A client of this crate
    /// uses a new number each time it acquires a lock from Redis. The threads of a client that hand
    /// a lock over to each other have one owner id. In Redisson the number is that of a thread.
    pub owner: Option<String>,
    /// How many times the owner holds the lock; 0 if it is free. Clients of this crate count in the
    /// process, and write the number for other programs to read: it may be up to a second old.
    /// [`Lock::hold_count`](crate::Lock::hold_count) is exact.
    pub hold_count: u32,
    /// The number of owners of the read lock of a [`ReadWriteLock`](crate::ReadWriteLock), among
    /// them a writer that also reads; 0 for any other lock. Threads of a client that share a grant
    /// are one owner. If there is no writer, `owner` and `hold_count` are those of one of these.
    /// The owner id of a writer ends in `:write`.
    pub readers: u32,
    /// What is left of the lease, in whole milliseconds; `None` if the lock is free, or if it never
    /// expires. This crate never sets a lock without an expiry.
    pub remaining: Option<Duration>,
}

impl LockStatus {
    /// The time left of the lease: [`Duration::MAX`] if it never ends, `None` if the lock is free.
    pub(crate) fn lease_left(&self) -> Option<Duration> {
        let owner = self.owner.as_ref();
        owner.map(|_| self.remaining.unwrap_or(Duration::MAX))
    }
}

/// The reply to [`inspect`](super::Kind::inspect).
pub(crate) fn inspected(reply: &Value) -> RedisResult<LockStatus> {
    let found: Option<(i64, String, u32, u32)> = decoded(reply)?;
    let status = found.map(|(pttl, owner, hold_count, readers)| LockStatus {
        owner: Some(owner),
        hold_count,
        readers,
        remaining: u64::try_from(pttl).ok().map(Duration::from_millis),
    });
    Ok(status.unwrap_or_default())
}

/// How a key is used otherwise than by a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OtherUse {
    /// It is in use as a lock of another kind: as which.
    OtherKind(String),
    /// It has a value of another type: that value and its key.
    OtherType(String),
}

/// Tells from the error of a script (`WRONGTYPE lock 2: a list`, `WRONGTYPE kind 2: it is in use as
/// a fair lock, ...`) or of a command in a script which of the requested locks cannot be used, and
/// why.
pub(crate) fn other_use<'k>(
    mut locks: impl Iterator<Item = &'k LockKey> + Clone,
    error: &RedisError,
) -> Option<(&'k LockKey, OtherUse)> {
    let first = locks.clone().next()?;
    let detail = error.detail().and_then(|detail| detail.split_once(": "));
    let (subject, what) = detail.unwrap_or_default();
    let (word, number) = subject.split_once(' ').unwrap_or((subject, ""));
    let at = number
        .parse()
        .map_or(0, |number: usize| number.saturating_sub(1));
    let lock = locks.nth(at).unwrap_or(first);
    let key = match word {
        "kind" => return Some((lock, OtherUse::OtherKind(what.into()))),
        // The text has the key.
        "condition" | "records" => return Some((lock, OtherUse::OtherType(what.into()))),
        "token" => format!("token key {:?}", lock.last_token_key()),
        "leases" => format!("key {:?}", lock.leases_key()),
        "lock" => format!("key {:?}", lock.key()),
        _ => return Some((first, OtherUse::OtherType(of_command(first)))),
    };
    Some((lock, OtherUse::OtherType(format!("{what} in the {key}"))))
}

/// What a key of the lock has that made a command of a script fail. Redis does not say which key.
fn of_command(lock: &LockKey) -> String {
    let key = lock.key();
    if lock.family() == Family::FairLock {
        let [queue, ends] = queue_keys(lock);
        return format!("a value of another type in one of the keys {key:?}, {queue:?}, {ends:?}");
    }
    format!("a value that is not a hash in the key {key:?}")
}

/// The reply as a value of this type.
pub(crate) fn decoded<T: FromRedisValue>(reply: &Value) -> RedisResult<T> {
    redis::from_redis_value_ref(reply).map_err(|_| unexpected(reply))
}

/// The error of a reply in another form. Does not show its text, which can be long, or the echo of
/// another request.
pub(crate) fn unexpected(reply: &Value) -> RedisError {
    let kind = match reply {
        Value::Nil => "nil",
        Value::Int(_) => "a number",
        Value::Array(_) => "an array",
        _ => "a text",
    };
    let what = "unexpected reply of the server";
    RedisError::from((ErrorKind::UnexpectedReturnType, what, kind.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_decoded() {
        let done = |listeners, is_called| Verdict::Done {
            listeners: Some(listeners),
            is_called,
        };
        assert_eq!(verdict(&Value::Int(1)).unwrap(), done(0, false));
        assert_eq!(verdict(&Value::Int(2)).unwrap(), done(0, true));
        assert_eq!(verdict(&Value::Int(7)).unwrap(), done(3, false));
        for (reply, is_called) in [(-2, false), (-3, true)] {
            let unpublished = Verdict::Done {
                listeners: None,
                is_called,
            };
            assert_eq!(verdict(&Value::Int(reply)).unwrap(), unpublished);
        }
        for (reply, reason) in [(0, LostReason::Deleted), (-1, LostReason::Taken)] {
            let lost = Verdict::Lost(reason);
            assert_eq!(verdict(&Value::Int(reply)).unwrap(), lost);
        }
        let two = Value::Array(vec![Value::Int(1), Value::Int(0)]);
        let lost = Verdict::Lost(LostReason::Deleted);
        assert_eq!(verdicts(&two, 2).unwrap()[..], [done(0, false), lost]);
        for odd in [Value::Okay, Value::Int(-4), Value::Array(vec![])] {
            assert!(verdict(&odd).is_err(), "{odd:?}");
            assert!(verdicts(&odd, 1).is_err(), "{odd:?}");
        }
        // There are fewer verdicts than locks, so it is unknown which one is missing.
        assert!(verdicts(&Value::Array(vec![Value::Int(1)]), 2).is_err());
    }

    #[test]
    fn a_lock_of_another_kind_or_type_is_named() {
        let keys = ["pay", "ship"].map(|name| LockKey::new("shop", name));
        for (line, expected) in [
            ("WRONGTYPE lock: a list", "a list in the key \"shop:pay\""),
            ("WRONGTYPE lock 1: a list", "a list in the key \"shop:pay\""),
            (
                "WRONGTYPE lock 2: a list",
                "a list in the key \"shop:ship\"",
            ),
            (
                "WRONGTYPE token: a set",
                "a set in the token key \"redisson_lock_token:{shop:pay}\"",
            ),
            (
                "WRONGTYPE condition: a value that is not a sorted set in the key \"k\"",
                "a value that is not a sorted set in the key \"k\"",
            ),
            (
                "WRONGTYPE Operation against a key holding the wrong kind of value",
                "a value that is not a hash in the key \"shop:pay\"",
            ),
            (
                "WRONGTYPE Operation against a key holding the wrong kind of value script: \
                 8a2f41, on @user_script:12.",
                "a value that is not a hash in the key \"shop:pay\"",
            ),
            (
                "WRONGTYPE records: a list in the key \"{pay}:leasehold:uuid\"",
                "a list in the key \"{pay}:leasehold:uuid\"",
            ),
            ("WRONGTYPE kind 2: it is a fair lock", "it is a fair lock"),
        ] {
            let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
            let error = value.extract_error().unwrap_err();
            let (lock, found) = other_use(keys.iter(), &error).unwrap();
            let expected = match line.starts_with("WRONGTYPE kind") {
                true => OtherUse::OtherKind(expected.into()),
                false => OtherUse::OtherType(expected.into()),
            };
            let name = if line.contains(" 2:") { "ship" } else { "pay" };
            assert_eq!((lock.name(), found), (name, expected));
        }
    }
}
