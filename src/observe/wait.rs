//! Observes the calls that wait for a lock.

use std::time::Duration;

use super::Observer;
use super::reporter::run;
use super::span::WaitSpan;
use crate::error::{Error, Result};

/// How a call ended that waits for a lock, for permits, for a latch or on a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has what it waited for.
    Acquired,
    /// It has a further level: its thread already held the lock.
    Reentered,
    /// Its wait ended first.
    Timeout,
    Unavailable,
    Refused,
    Interrupted,
    ShutDown,
    Lost,
    Invalid,
}

impl Outcome {
    /// The outcome of a call, by that of a value.
    pub(crate) fn of<T>(result: &Result<T>, of_value: impl FnOnce(&T) -> Self) -> Self {
        match result {
            Ok(value) => of_value(value),
            Err(error) => Self::of_error(error),
        }
    }

    /// The outcome of a call that returns whether it has what it waited for.
    pub(crate) fn of_wait(has_acquired: &bool) -> Self {
        match has_acquired {
            true => Self::Acquired,
            false => Self::Timeout,
        }
    }

    fn of_error(error: &Error) -> Self {
        match error {
            Error::Unavailable { .. } => Self::Unavailable,
            Error::Redis { .. } | Error::WrongType { .. } | Error::TooFewReplicas { .. } => {
                Self::Refused
            }
            Error::Interrupted { .. } => Self::Interrupted,
            Error::ShutDown { .. } => Self::ShutDown,
            Error::Lost { .. } => Self::Lost,
            _ => Self::Invalid,
        }
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Reentered => "reentered",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
            Self::Interrupted => "interrupted",
            Self::ShutDown => "shut_down",
            Self::Lost => "lost",
            Self::Invalid => "invalid",
        }
    }
}

/// Makes a call that waits for `lock`, within a span. Calls code of the application.
pub(crate) fn wait<T>(
    lock: &str,
    kind: &'static str,
    call: impl FnOnce() -> Result<T>,
    of_value: impl FnOnce(&T) -> Outcome,
) -> Result<T> {
    let span = WaitSpan::enter(lock, kind);
    let result = call();
    span.end(Outcome::of(&result, of_value).label());
    result
}

/// Reports that this thread has waited for a lock or a permit for this long. The holder is the
/// owner id of another client, by the last reply; `None` if a thread of this client has the lock,
/// or no reply has arrived.
pub(crate) fn long_wait(lock: &str, waited: Duration, holder: Option<&str>) {
    run(|| tracing::info!(lock, ?waited, holder, "still waiting for a lock"));
}

impl Observer {
    /// Counts a call for a lock or for permits if it did not acquire them.
    pub(crate) fn count_failure(&self, outcome: Outcome) {
        let counters = &self.counters;
        let counter = match outcome {
            Outcome::Timeout => &counters.acquires_timed_out,
            Outcome::Unavailable => &counters.acquires_unavailable,
            Outcome::Refused => &counters.acquires_refused,
            _ => return,
        };
        counter.add(1);
    }
}
