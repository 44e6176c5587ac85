//! Observes the calls that wait for a lock.

use std::time::Duration;

use super::Observer;
use super::reporter::run;
use crate::error::{Error, Result};

/// How a call ended that waits for a lock, for permits, for a latch or on a condition: the label in
/// its span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome(pub(super) &'static str);

impl Outcome {
    /// It has what it waited for.
    pub(crate) const ACQUIRED: Self = Self("acquired");
    /// It has a further level: its thread already held the lock.
    pub(crate) const REENTERED: Self = Self("reentered");
    /// Its wait ended first.
    pub(crate) const TIMEOUT: Self = Self("timeout");

    /// The outcome of a call, by that of a value.
    pub(crate) fn of<T>(result: &Result<T>, of_value: impl FnOnce(&T) -> Self) -> Self {
        Self(match result {
            Ok(value) => return of_value(value),
            Err(Error::Unavailable { .. }) => "unavailable",
            Err(Error::Redis { .. } | Error::WrongType { .. } | Error::TooFewReplicas { .. }) => {
                "refused"
            }
            Err(Error::Interrupted { .. }) => "interrupted",
            Err(Error::ShutDown { .. }) => "shut_down",
            Err(Error::Lost { .. }) => "lost",
            Err(_) => "invalid",
        })
    }

    /// The outcome of a call that returns whether it has what it waited for.
    pub(crate) fn of_wait(result: &Result<bool>) -> Self {
        Self::of(result, |has_acquired| match has_acquired {
            true => Self::ACQUIRED,
            false => Self::TIMEOUT,
        })
    }
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
        let counter = match outcome.0 {
            "timeout" => &counters.acquires_timed_out,
            "unavailable" => &counters.acquires_unavailable,
            "refused" => &counters.acquires_refused,
            _ => return,
        };
        counter.add(1);
    }
}
