//! The requests of each kind of lock, and the meaning of their replies.
//!
//! [`Kind`] is what the kinds differ in. All other modules treat every kind alike.
//! `ARCHITECTURE.md` lists what a new kind of lock touches.
//!
//! | file | duty |
//! |---|---|
//! | `kind` | what a kind is, and its calls |
//! | `plain`, `fenced`, `fair` | a kind of lock each |
//! | `read_write` | the two locks of a read-write lock |
//! | `condition` | the condition of a lock |
//! | `permits` | the permits of a leased semaphore |
//! | `number` | kinds without a holder: semaphores and latches |
//! | `query` | commands that are executed only while locks are held |
//! | `commands` | the limits of these commands, and which of their words are keys |
//! | `message` | the messages that scripts publish, and the places at which they arrive |
//! | `token` | the text that stands for a hold which was given away |
//! | `reply` | replies that all kinds share: verdicts, the state of a lock, error replies |

mod commands;
mod condition;
mod fair;
mod fenced;
mod kind;
pub(crate) mod message;
mod number;
mod permits;
mod plain;
mod query;
mod read_write;
mod reply;
#[cfg(test)]
mod tests;
mod token;

use std::ops::Range;
use std::sync::Arc;

use redis::{RedisResult, Value};

pub(crate) use commands::{Command, KeyPositions, commands, key_positions, keys_at, name};
pub(crate) use condition::{ConditionKeys, EndedPlace, Intent, Notified, ended};
pub(crate) use fair::FAIR;
pub(crate) use fenced::FENCED;
pub(crate) use kind::Kind;
pub(crate) use number::{Change, NumberKey, PermitsSum, RequestCopy, number, records};
pub(crate) use permits::{
    PERMITS, PermitsChange, change_permits, count_permits, permits_changed, permits_counted,
};
pub(crate) use plain::PLAIN;
pub(crate) use query::{Queried, QueryReply, query};
pub(crate) use read_write::{READ, WRITE};
pub use reply::LockStatus;
pub(crate) use reply::{
    LookReply, OtherUse, Verdict, decoded, inspected, look_replies, other_use, unexpected, verdict,
    verdicts,
};
#[cfg(test)]
pub(crate) use tests::TOY;
pub(crate) use token::Token;

use crate::base::{Moment, OwnerId, excerpt};
use crate::script::granted;

/// All kinds of locks. The permits of a leased semaphore are a kind, too, but no lock.
pub(crate) static LOCKS: [&Kind; 5] = [&PLAIN, &FENCED, &FAIR, &READ, &WRITE];

/// The kinds of locks, and that of leased permits.
pub(crate) fn kinds() -> impl Iterator<Item = &'static Kind> {
    LOCKS.into_iter().chain([&PERMITS])
}

/// What a request to acquire locks or permits is for.
#[derive(Clone, Debug, Default)]
pub(crate) struct AcquireOptions {
    /// The number of holds that the grant is wanted for: that of the caller, and those of the
    /// threads that wait behind it. The permits of a semaphore without leases have no holds.
    pub(crate) holds: usize,
    /// The caller waits if another owner has what it wants. In the line of a semaphore, it leaves
    /// the permits that are reserved.
    pub(crate) waits: bool,
    /// The place of the client in the line of the lock, if it has or wants one.
    pub(crate) place: Option<Arc<str>>,
    /// The owner id of the exclusive grant that this thread has while it acquires a shared one.
    pub(crate) within: Option<OwnerId>,
    /// How many permits a semaphore with leases has at least.
    pub(crate) total: Option<u32>,
    /// The call takes over what the oldest name of the owner id has.
    pub(crate) adopts: bool,
}

/// Why locks were not acquired: another client or thread holds one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The index of that lock in the request.
    pub(crate) at: usize,
    /// What is left of its lease, in milliseconds; `None` if the lease never ends.
    pub(crate) millis: Option<u64>,
    /// Empty if it is not known, or if the lock is free and reserved for another client.
    pub(crate) owner: String,
    pub(crate) standing: Standing,
}

/// Where the client stands in the line of a lock, as a refusal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The number of clients before this one; `None` if it is in no line.
    pub(crate) rank: Option<u32>,
    /// The client listens to the channel for releases besides its place in the line.
    pub(crate) listens: bool,
    /// A moment before the request was sent.
    pub(crate) asked: Moment,
}

/// Decodes the reply to [`Kind::acquire`], which was sent after `asked`: the fencing tokens, if the
/// kind of lock has tokens, or the refusal.
pub(crate) fn acquired(reply: &Value, asked: Moment) -> RedisResult<Result<Range<u64>, Refusal>> {
    if let Some(tokens) = granted(reply) {
        return Ok(Ok(tokens));
    }
    if let Value::Array(parts) = reply
        && let [
            Value::Int(millis),
            Value::Int(at @ 1..),
            Value::BulkString(owner),
            place @ ..,
        ] = &parts[..]
    {
        return Ok(Err(Refusal {
            at: usize::try_from(at - 1).unwrap_or_default(),
            millis: u64::try_from(*millis).ok(),
            owner: excerpt(format_args!("{}", String::from_utf8_lossy(owner))),
            standing: Standing {
                rank: place.first().and_then(|rank| number(rank).ok()),
                listens: place.get(1) == Some(&Value::Int(1)),
                asked,
            },
        }));
    }
    Err(unexpected(reply))
}
