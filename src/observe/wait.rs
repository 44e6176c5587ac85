//! Observes the calls that wait for a lock.

use super::Observer;
use super::span::WaitSpan;
use crate::error::{Error, Result};

/// What a call that waits for a lock has got without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// What it waited for.
    Yes,
    /// A further level: its thread already held the lock.
    Reentered,
    /// Nothing: its wait ended first.
    No,
}

impl Acquired {
    pub(crate) fn of(is_acquired: &bool) -> Self {
        match is_acquired {
            true => Self::Yes,
            false => Self::No,
        }
    }
}

/// Makes a call that waits for `lock`, within a span. Calls code of the application.
pub(crate) fn wait<T>(
    lock: &str,
    kind: &'static str,
    call: impl FnOnce() -> Result<T>,
    acquired: impl FnOnce(&T) -> Acquired,
) -> Result<T> {
    let span = WaitSpan::enter(lock, kind);
    let result = call();
    span.end(match &result {
        Ok(value) => match acquired(value) {
            Acquired::Yes => "acquired",
            Acquired::Reentered => "reentered",
            Acquired::No => "timeout",
        },
        Err(error) => reason_of(error),
    });
    result
}

fn reason_of(error: &Error) -> &'static str {
    match error {
        Error::Unavailable { .. } => "unavailable",
        Error::Redis { .. } | Error::WrongType { .. } | Error::TooFewReplicas { .. } => "refused",
        Error::Interrupted { .. } => "interrupted",
        Error::Lost { .. } => "lost",
        _ => "invalid",
    }
}

impl Observer {
    /// Counts a call that did not acquire a lock or permits; `None` if its wait ended first.
    #[cold]
    pub(crate) fn failed_acquire(&self, error: Option<&Error>) {
        let counters = &self.counters;
        match error.map(reason_of) {
            None => counters.acquires_timed_out.add(1),
            Some("unavailable") => counters.acquires_unavailable.add(1),
            Some("refused") => counters.acquires_refused.add(1),
            Some(_) => {}
        }
    }
}
