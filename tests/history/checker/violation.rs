//! The violations that the checker reports.

use std::fmt;
use std::time::Duration;

use super::HoldId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The lock confirmed two holds for the same time.
    TwoHolders {
        lock: u32,
        first: HoldId,
        second: HoldId,
        overlap: Duration,
        at: u64,
    },
    /// The lock confirmed a read and a write hold for the same time.
    ReaderBesideWriter {
        lock: u32,
        first: HoldId,
        second: HoldId,
        overlap: Duration,
        at: u64,
    },
    /// The semaphore confirmed holds of more permits than it has for the same time.
    TooManyPermits {
        lock: u32,
        hold: HoldId,
        permits: u32,
        at: u64,
    },
    /// More than a lease after the deletion of its key, the lock still confirmed the hold.
    NotNotified {
        lock: u32,
        hold: HoldId,
        after: Duration,
        at: u64,
    },
    /// The token of a later hold is not greater.
    TokenDidNotRise {
        lock: u32,
        first: (HoldId, u64),
        second: (HoldId, u64),
        at: u64,
    },
    /// A nested acquire returned another token than the outer one.
    TokenChanged { hold: HoldId, call: HoldId, at: u64 },
    /// The lock was free for too long in a calm while a thread waited for it.
    LockStuck {
        lock: u32,
        waiter: HoldId,
        idle: Duration,
        at: u64,
    },
    /// The threads of a process handed locks over for this long without a request to Redis.
    Kept {
        process: u32,
        time: Duration,
        at: u64,
    },
    /// The process acquired a lock for a call that began while another one had an earlier
    /// place in the queue, and kept it.
    Overtaken {
        lock: u32,
        waiting: u32,
        hold: HoldId,
        at: u64,
    },
    /// The process has no place in the line any more, although its call waits further.
    PlaceLost { lock: u32, waiting: u32, at: u64 },
    /// A call exceeded its documented bound, or never returned.
    ThreadStuck {
        call: HoldId,
        what: String,
        took: Duration,
        budget: Option<Duration>,
        at: u64,
    },
    /// Others acquired the lock in turn very often while the call waited.
    Starved { call: HoldId, turns: usize, at: u64 },
    /// The result of a call breaks its documentation.
    WrongResult {
        call: HoldId,
        answer: String,
        at: u64,
    },
    /// A process ended unexpectedly.
    Died { process: u32, at: u64 },
    /// A process did not end when asked to.
    Lingers { process: u32, at: u64 },
    /// A key was still in Redis after the run that should have ended, or not with this value.
    LeftOver { key: String, value: String, at: u64 },
}

impl Violation {
    /// Two holds for the same time, which is not allowed even if one of them reads.
    pub(super) fn of_holders(
        lock: u32,
        [first, second]: [HoldId; 2],
        has_reader: bool,
        overlap: Duration,
        at: u64,
    ) -> Self {
        match has_reader {
            true => Self::ReaderBesideWriter {
                lock,
                first,
                second,
                overlap,
                at,
            },
            false => Self::TwoHolders {
                lock,
                first,
                second,
                overlap,
                at,
            },
        }
    }

    pub fn at(&self) -> u64 {
        match self {
            Self::TwoHolders { at, .. }
            | Self::ReaderBesideWriter { at, .. }
            | Self::TooManyPermits { at, .. }
            | Self::NotNotified { at, .. }
            | Self::TokenDidNotRise { at, .. }
            | Self::TokenChanged { at, .. }
            | Self::LockStuck { at, .. }
            | Self::Kept { at, .. }
            | Self::Overtaken { at, .. }
            | Self::PlaceLost { at, .. }
            | Self::ThreadStuck { at, .. }
            | Self::Starved { at, .. }
            | Self::WrongResult { at, .. }
            | Self::Died { at, .. }
            | Self::Lingers { at, .. }
            | Self::LeftOver { at, .. } => *at,
        }
    }

    /// A short name of the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::TwoHolders { .. } => "two holders",
            Self::ReaderBesideWriter { .. } => "reader beside a writer",
            Self::TooManyPermits { .. } => "too many permits",
            Self::NotNotified { .. } => "holder not notified",
            Self::TokenDidNotRise { .. } => "token fell",
            Self::TokenChanged { .. } => "token changed",
            Self::LockStuck { .. } => "lock stuck",
            Self::Kept { .. } => "kept by hand-overs",
            Self::Overtaken { .. } => "overtaken",
            Self::PlaceLost { .. } => "place lost",
            Self::ThreadStuck { .. } => "thread stuck",
            Self::Starved { .. } => "starved",
            Self::WrongResult { .. } => "wrong result",
            Self::Died { .. } => "worker died",
            Self::Lingers { .. } => "worker lingers",
            Self::LeftOver { .. } => "left over",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: ", self.kind(), self.at())?;
        match self {
            Self::TooManyPermits {
                lock,
                hold,
                permits,
                ..
            } => write!(
                f,
                "{permits} permits of semaphore {lock} were taken when {hold} had acquired it"
            ),
            Self::TwoHolders {
                lock,
                first,
                second,
                overlap,
                ..
            }
            | Self::ReaderBesideWriter {
                lock,
                first,
                second,
                overlap,
                ..
            } => write!(
                f,
                "lock {lock} was held by {first} and by {second} for {overlap:?}"
            ),
            Self::NotNotified {
                lock, hold, after, ..
            } => write!(
                f,
                "{hold} still held lock {lock} {after:?} after its key was deleted"
            ),
            Self::TokenDidNotRise {
                lock,
                first: (first, smaller),
                second: (second, token),
                ..
            } => write!(
                f,
                "lock {lock}: {second} has token {token} after {first} had {smaller}"
            ),
            Self::TokenChanged { hold, call, .. } => {
                write!(f, "{call} has another token than its outer hold, {hold}")
            }
            Self::LockStuck {
                lock, waiter, idle, ..
            } => write!(
                f,
                "lock {lock} was free for {idle:?} while {waiter} waited for it"
            ),
            Self::Kept { process, time, .. } => {
                write!(
                    f,
                    "process {process} handed locks over for {time:?}, past the slice"
                )
            }
            Self::Overtaken {
                lock,
                waiting,
                hold,
                ..
            } => write!(
                f,
                "{hold} acquired lock {lock} while process {waiting} had an earlier place"
            ),
            Self::PlaceLost { lock, waiting, .. } => {
                write!(
                    f,
                    "process {waiting} lost its place for lock {lock} while it waited"
                )
            }
            Self::ThreadStuck {
                call,
                what,
                took,
                budget,
                ..
            } => match budget {
                Some(budget) => {
                    write!(f, "{call}: {what} took {took:?}, its budget was {budget:?}")
                }
                None => write!(f, "{call}: {what} has not returned after {took:?}"),
            },
            Self::Starved { call, turns, .. } => {
                write!(f, "{call} waited while other processes had {turns} turns")
            }
            Self::WrongResult { call, answer, .. } => write!(f, "{call} returned: {answer}"),
            Self::Died { process, .. } => write!(f, "process {process} ended unexpectedly"),
            Self::Lingers { process, .. } => {
                write!(f, "process {process} does not end when asked to")
            }
            Self::LeftOver { key, value, .. } => write!(f, "{key} is still in Redis: {value}"),
        }
    }
}
