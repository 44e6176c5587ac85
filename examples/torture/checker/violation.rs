//! What was found.

use std::fmt;
use std::time::Duration;

use super::HoldId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Both were told at the same time that they hold the lock.
    TwoHolders {
        lock: u32,
        first: HoldId,
        second: HoldId,
        overlap: Duration,
        at: u64,
    },
    /// A holder whose key was deleted still believed after its lease.
    NotNotified {
        lock: u32,
        hold: HoldId,
        after: Duration,
        at: u64,
    },
    /// A later hold has a token that is not greater.
    TokenDidNotRise {
        lock: u32,
        first: (HoldId, u64),
        second: (HoldId, u64),
        at: u64,
    },
    /// A nested acquire gave another token than the outer one.
    TokenChanged {
        hold: HoldId,
        call: HoldId,
        at: u64,
    },
    /// Nobody had the lock for so long, though somebody waited for it and nothing was disturbed.
    LockStuck {
        lock: u32,
        waiter: HoldId,
        idle: Duration,
        at: u64,
    },
    /// A call took longer than its documentation says, or never ended.
    ThreadStuck {
        call: HoldId,
        what: String,
        took: Duration,
        budget: Option<Duration>,
        at: u64,
    },
    WrongAnswer {
        call: HoldId,
        answer: String,
        at: u64,
    },
    Died {
        process: u32,
        at: u64,
    },
    /// A process that did not end.
    Lingers {
        process: u32,
        at: u64,
    },
    LeftOver {
        lock: u32,
        what: String,
        at: u64,
    },
}

impl Violation {
    pub fn at(&self) -> u64 {
        match self {
            Self::TwoHolders { at, .. }
            | Self::NotNotified { at, .. }
            | Self::TokenDidNotRise { at, .. }
            | Self::TokenChanged { at, .. }
            | Self::LockStuck { at, .. }
            | Self::ThreadStuck { at, .. }
            | Self::WrongAnswer { at, .. }
            | Self::Died { at, .. }
            | Self::Lingers { at, .. }
            | Self::LeftOver { at, .. } => *at,
        }
    }

    /// The kind, in two words.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::TwoHolders { .. } => "two holders",
            Self::NotNotified { .. } => "holder not notified",
            Self::TokenDidNotRise { .. } => "token fell",
            Self::TokenChanged { .. } => "token changed",
            Self::LockStuck { .. } => "lock stuck",
            Self::ThreadStuck { .. } => "thread stuck",
            Self::WrongAnswer { .. } => "wrong answer",
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
            Self::TwoHolders {
                lock,
                first,
                second,
                overlap,
                ..
            } => write!(
                f,
                "lock {lock} was held by {first} and by {second}, for {overlap:?} together"
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
                "nobody held lock {lock} for {idle:?}, and {waiter} waited for it"
            ),
            Self::ThreadStuck {
                call,
                what,
                took,
                budget,
                ..
            } => match budget {
                Some(budget) => write!(f, "{call}: {what} took {took:?} of {budget:?}"),
                None => write!(f, "{call}: {what} did not end, after {took:?}"),
            },
            Self::WrongAnswer { call, answer, .. } => write!(f, "{call} was answered {answer}"),
            Self::Died { process, .. } => write!(f, "process {process} ended by itself"),
            Self::Lingers { process, .. } => write!(f, "process {process} does not end"),
            Self::LeftOver { lock, what, .. } => write!(f, "of lock {lock} remains {what}"),
        }
    }
}
