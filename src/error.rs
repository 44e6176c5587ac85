//! What can go wrong, and what to do about it.

mod hint;

use std::fmt;
use std::time::Duration;

pub use hint::{Hint, Permission};

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A cause in the words of the layer below: I/O, the connection pool, or Redis itself.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a call failed. "Somebody else holds the lock" is an answer, never an error, but where there is
/// nothing else to give back: of a function with `#[locked]`.
///
/// Every error that concerns a lock names it; every error that concerns a server names its node
/// (`host:port` or socket path). No error contains a password. A user name appears only where the
/// server repeats it in its reply.
///
/// The text of an error contains that of its cause. So [`source`](std::error::Error::source) does
/// not return the cause again; programs read it from the field `cause`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The calling thread does not hold the lock: it never took it, has given it back already, or
    /// another thread took it. [`unlock`](crate::Lock::unlock) also returns this error if only
    /// guards of the thread hold the lock: drop the guard instead. Java's
    /// `IllegalMonitorStateException`.
    #[error(
        "lock {lock:?} is not held by this thread; only the thread that took it can use or unlock it, and a level that a guard holds is given back by dropping the guard"
    )]
    NotHeld {
        /// The name of the lock.
        lock: String,
    },

    /// The calling thread did hold the lock, and it is gone. Stop what the lock protects, then
    /// unlock (or drop the guard): only that lets the thread take the lock anew.
    #[error(
        "lock {lock:?} was lost ({reason}); stop the work that it protects, then unlock it before taking it again"
    )]
    Lost {
        /// The name of the lock.
        lock: String,
        /// How it was lost.
        reason: LostReason,
    },

    /// Somebody else holds the lock, and did so until the end of the wait. Only what has no other answer for
    /// it says this: a function with `#[locked]`.
    #[error(
        "lock {lock:?} is held by somebody else, after a wait of {waited:.1?}; try again later, or wait longer"
    )]
    HeldByAnother {
        /// The name of the lock.
        lock: String,
        /// How long was waited for it.
        waited: Duration,
    },

    /// Redis gave no clear answer within the time that the call may take. What was asked may or
    /// may not have happened; an acquire is undone in the background, a release repeated there.
    #[error(
        "lock {lock:?}: no clear answer from Redis at {node} within {waited:.1?} ({cause}); check the server, then try again"
    )]
    Unavailable {
        /// The name of the lock.
        lock: String,
        /// The node that was asked.
        node: String,
        /// How long the call tried.
        waited: Duration,
        /// The last failure seen. A refused connection or an error reply is a `redis::RedisError`.
        cause: Cause,
    },

    /// The lock was to be had, but too few replicas confirmed that they have it
    /// ([`min_replicas`](crate::LockClientBuilder::min_replicas)), so it was given back.
    #[error(
        "lock {lock:?}: only {confirmed} of {wanted} replicas of {node} confirmed it in time, and it was given back; check the replicas, or ask for fewer"
    )]
    TooFewReplicas {
        /// The name of the lock.
        lock: String,
        /// The master.
        node: String,
        /// How many were asked for.
        wanted: u32,
        /// How many confirmed it at the last attempt.
        confirmed: u32,
    },

    /// The client was made before this process was forked from another. The locks, connections and
    /// threads are that other's. A child that wants locks of its own is forked before any client is
    /// made, or runs another program (`exec`): a process with threads leaves the copies of their
    /// mutexes behind in a child, in whatever state they are.
    #[error(
        "lock {lock:?}: its client was made before this process was forked; fork before any client is made, or exec"
    )]
    Forked {
        /// The name of the lock.
        lock: String,
    },

    /// The [`Interrupt`](crate::Interrupt) was raised before the lock was taken.
    #[error("waiting for lock {lock:?} was interrupted")]
    Interrupted {
        /// The name of the lock.
        lock: String,
    },

    /// A key of this lock holds something else: a read-write lock, or data of another type. Nothing
    /// was changed.
    #[error(
        "lock {lock:?} at {node}: found a value of another type, {found}; choose another name, or delete that key"
    )]
    WrongType {
        /// The name of the lock.
        lock: String,
        /// The node that was asked.
        node: String,
        /// What was found, and in which key.
        found: String,
    },

    /// A setting, a name or a lease is outside its bounds. Nothing was sent.
    #[error("{field} is {value}: {rule}")]
    Config {
        /// The setting or argument.
        field: &'static str,
        /// What was given, without secrets.
        value: String,
        /// The bound that it breaks.
        rule: String,
    },

    /// Redis refused the command (no permission, wrong password, out of memory and the like), or one side
    /// refused the other's certificate. Asking again will not help before the server or the client's
    /// settings are changed.
    #[error(
        "lock {lock:?}: Redis at {node} refused: {cause}{}",
        .hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default()
    )]
    Redis {
        /// The name of the lock.
        lock: String,
        /// The node that refused.
        node: String,
        /// Why: a `redis::RedisError`.
        cause: Cause,
        /// What to change, if the reply says so.
        hint: Option<Box<Hint>>,
    },
}

/// How a held lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// By this process's own clock the lease may have run out on the server: it was a fixed one, or
    /// no renewal was confirmed in time.
    Expired,
    /// Redis answered that the key is gone: deleted, evicted, flushed, or forced open.
    Deleted,
    /// Redis answered that somebody else holds the lock.
    Taken,
    /// All renewals of [`Lease::renewed_at_most`](crate::Lease::renewed_at_most) are used up. The
    /// last lease still runs for about a third of its length.
    RenewalLimit,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease ran out",
            Self::Deleted => "its key was deleted",
            Self::Taken => "somebody else took it",
            Self::RenewalLimit => "its renewals are used up",
        })
    }
}
