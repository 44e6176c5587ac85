//! The requests of each kind of lock, and the meaning of their replies.
//!
//! [`Protocol`] is what the kinds differ in. All other modules treat every kind alike. A new kind
//! of lock is a file here, a public type in `lock/`, and its scripts in `lua/`.
//!
//! | file | duty |
//! |---|---|
//! | `plain`, `fenced`, `fair` | a kind of lock each |
//! | `read_write` | the two locks of a read-write lock |
//! | `condition` | the condition of a lock |
//! | `permits` | the permits of a leased semaphore |
//! | `number` | kinds without a holder: semaphores and latches |
//! | `reply` | replies that all kinds share: verdicts, the state of a lock, error replies |

mod condition;
mod fair;
mod fenced;
mod number;
mod permits;
mod plain;
mod read_write;
mod reply;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use redis::{RedisResult, Value};

pub(crate) use condition::{ConditionKeys, Ended, Intent, Notified, ended};
pub(crate) use fair::Fair;
pub(crate) use fenced::Fenced;
pub(crate) use number::{Ask, NumberKey, RequestCopy, Taken, number, records, taken};
pub(crate) use permits::{Permits, PermitsChange};
pub(crate) use plain::Plain;
pub(crate) use read_write::{Read, Write};
pub(crate) use reply::{Inspected, Verdict, forced, found, inspected, mixed, unexpected, verdicts};

use crate::base::key::LockKey;
use crate::base::owner::OwnerId;
use crate::script::{self, Call};

/// The argument of a script that writes a hold count; without one, it leaves the count as it is.
fn count_argument(count: Option<u32>) -> String {
    count.map(|count| count.to_string()).unwrap_or_default()
}

/// What one kind of lock requests from Redis. Each grant has an owner id of its own.
///
/// The provided methods are those of a lock that is a hash of owner to hold count.
pub(crate) trait Protocol: fmt::Debug + Send + Sync {
    /// Acquires all of these locks for `owner`, or none, for `millis` milliseconds.
    fn acquire(&self, keys: &[&LockKey], owner: &OwnerId, millis: u64, wish: &Wish) -> Call;

    /// True if clients that wait stand in a line (`lua/shared/line.lua`).
    fn has_line(&self) -> bool {
        false
    }

    /// The call that follows if the requests of this `client` were refused, and the caller waits no
    /// more; `None` if Redis knows of no client that waits. `place` is the place of the client, if
    /// the lock has a line. All waits of the client have the same place.
    fn give_up(&self, key: &LockKey, _client: &str, place: Option<&str>) -> Option<Call> {
        place.map(|place| script::leave_line(key, place, false))
    }

    /// Decodes the reply to [`acquire`](Self::acquire).
    fn acquired(&self, reply: &Value) -> RedisResult<AcquireReply>;

    /// The names of a lock in Redis. Its channel can depend on the client.
    fn names(&self, namespace: &str, name: &str, _client: &str) -> LockKey {
        LockKey::new(namespace, name)
    }

    /// The name of the kind, also in spans. Grants of one kind do not suit another.
    fn kind(&self) -> &'static str;

    /// True if several threads of a client hold the lock at the same time, and may share a grant.
    /// Locks of the same id whose holds are not shared exclude them.
    fn is_shared(&self) -> bool {
        false
    }

    /// True for a reply to [`acquire`](Self::acquire) that grants the locks.
    fn grants(&self) -> fn(&Value) -> bool;

    /// How many holds may use what this reply grants; `None` if that is not limited. `waiting` is
    /// the number of threads that waited here when Redis first refused the lock, if it did.
    fn turns(&self, _reply: &Value, _waiting: Option<usize>) -> Option<usize> {
        None
    }

    /// True if no owner has what a reply refuses, so that no release can make it available.
    fn has_no_owner(&self, _reply: &Value) -> bool {
        false
    }

    /// True for a reply that refuses a lock, and after which the client listens to the channel for
    /// releases besides its place in the line.
    fn listens(&self, _reply: &Value) -> bool {
        false
    }

    /// A new owner id for a grant to a client whose owner ids begin with `client`.
    fn owner(&self, client: &str) -> OwnerId {
        OwnerId::new(client)
    }

    /// True if a hold keeps all other owners from the lock. Otherwise several threads of a client
    /// can have holds at the same time, and each hold has a grant of its own.
    fn is_exclusive(&self) -> bool {
        true
    }

    /// True if each hold has a fencing token.
    fn has_tokens(&self) -> bool {
        false
    }

    /// True if one call can acquire several locks of this kind, all of them or none.
    fn is_joinable(&self) -> bool {
        true
    }

    /// Releases a lock, and publishes that. `owner` may have several names.
    fn release(&self, key: &LockKey, owner: &OwnerId) -> Call {
        Call::new(&script::RELEASE)
            .key(key.key())
            .arg(owner.as_str())
            .arg(&**key.channel())
            .publishing()
    }

    /// Releases a lock of `owner`, but leaves it held by `name` for `millis` milliseconds.
    fn leave(&self, key: &LockKey, owner: &OwnerId, millis: u64, name: &OwnerId) -> Call {
        Call::new(&script::LEAVE)
            .key(key.key())
            .arg(owner.as_str())
            .arg(millis.to_string())
            .arg(name.as_str())
            .arg(&**key.channel())
            .publishing()
    }

    /// Prolongs the lease to `millis` milliseconds if it is shorter; with 0, only confirms that
    /// Redis has the lock. Writes the hold count, if there is one.
    fn renew(&self, key: &LockKey, owner: &OwnerId, millis: u64, count: Option<u32>) -> Call {
        Call::new(&script::RENEW)
            .key(key.key())
            .arg(owner.as_str())
            .arg(millis.to_string())
            .arg(count_argument(count))
    }

    /// Reads an owner of a lock.
    fn inspect(&self, key: &LockKey) -> Call {
        script::inspect(key)
    }
}

/// What an acquire is for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// The number of holds that the grant is wanted for: that of the caller, and those of the
    /// threads that wait behind it.
    pub(crate) holds: usize,
    /// The caller waits if the locks are held.
    pub(crate) waits: bool,
    /// The place of the client in the line of the lock, if it has or wants one.
    pub(crate) place: Option<Arc<str>>,
    /// The owner id of the exclusive grant that this thread has while it acquires a shared one.
    pub(crate) within: Option<OwnerId>,
}

impl Wish {
    /// Two arguments of scripts: the place, or an empty string; and 1 if the caller waits there.
    fn in_line(&self) -> (&str, &'static str) {
        match &self.place {
            Some(place) => (place, if self.waits { "1" } else { "0" }),
            None => ("", "0"),
        }
    }
}

/// The result of one attempt to acquire locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AcquireReply {
    /// Acquired, with these fencing tokens if the kind of lock has tokens.
    Granted(Range<u64>),
    /// Another client or thread holds one of the locks.
    Held {
        /// The index of that lock in the request.
        at: usize,
        /// What is left of its lease, in milliseconds; `None` if the lease never ends.
        millis: Option<u64>,
        /// Empty if it is not known, or if the lock is free and reserved for another client.
        owner: String,
        /// The number of clients before this one in the line of the lock; `None` if this client is
        /// in no line.
        rank: Option<u32>,
    },
}

/// The rank of a client in a line, which is the first of these values; `None` if it is in no line.
fn rank_of(place: &[Value]) -> Option<u32> {
    match place {
        [Value::Int(rank), ..] => u32::try_from(*rank).ok(),
        _ => None,
    }
}

impl AcquireReply {
    /// Decodes the reply that another owner holds a lock.
    fn held(reply: &Value) -> RedisResult<Self> {
        match reply {
            Value::Array(parts) => match &parts[..] {
                [
                    Value::Int(millis),
                    Value::Int(number @ 1..),
                    Value::BulkString(owner),
                    rank @ ..,
                ] => Ok(Self::Held {
                    at: usize::try_from(number - 1).unwrap_or_default(),
                    millis: u64::try_from(*millis).ok(),
                    owner: String::from_utf8_lossy(owner).into(),
                    rank: rank_of(rank),
                }),
                _ => Err(unexpected(reply)),
            },
            other => Err(unexpected(other)),
        }
    }
}
