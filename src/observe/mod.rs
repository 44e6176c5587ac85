//! Counters and events of a client, and what its log subscriber and metrics recorder get.
//!
//! | file | duty |
//! |---|---|
//! | `counters` | the counters and gauges, and their names in the `metrics` facade |
//! | `metric_label` | the label of waits and holds, by a function of the application |
//! | `series` | one counter or gauge of the facade |
//! | `span` | the spans of `tracing`: a thread waits for a lock, with its outcome, and holds it |
//! | `reporter` | calls the log subscriber and the metrics recorder |

mod counters;
mod metric_label;
mod reporter;
mod series;
mod span;

use std::sync::Arc;
use std::time::Duration;

pub use counters::Stats;
pub(crate) use counters::{Counters, HoldCount, register};
pub(crate) use metric_label::MetricLabel;
pub(crate) use reporter::{Reporter, tell};
pub(crate) use span::{HoldSpan, WaitOutcome, WaitSpan, are_spans_enabled};

use crate::base::{Publisher, Subscription};
use crate::error::LostReason;

/// How many undelivered events a receiver of [`LockClient::events`](crate::LockClient::events)
/// keeps.
const EVENT_BUFFER: usize = 1024;

/// An event that a client reports by [`LockClient::events`](crate::LockClient::events).
///
/// A failed renewal is not a lost lock: the client repeats the renewal until the lease is over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LockEvent {
    /// A renewal, or the check of a fixed lease, got no reply, or an error. The client repeats it
    /// until the lease is over.
    RenewalFailed {
        /// The name of the lock.
        lock: Arc<str>,
        /// The failure.
        cause: Arc<str>,
        /// How much of the lease is left.
        lease_left: Duration,
    },
    /// A held lock was lost.
    Lost {
        /// The name of the lock.
        lock: Arc<str>,
        /// How it was lost.
        reason: LostReason,
    },
    /// A lock was released after its lease was over by this process's clock, but before another
    /// client or thread acquired it. The lease is too short for the work.
    ReleasedLate {
        /// The name of the lock.
        lock: Arc<str>,
        /// The time from the end of the lease until the release.
        late_by: Duration,
    },
    /// One of the client's own threads connected again after a failure.
    Reconnected {
        /// The node of the connection.
        node: Arc<str>,
    },
}

/// Collects what all parts of a client report.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    pub(crate) counters: Counters,
    events: Arc<Publisher<LockEvent>>,
    /// What the threads of the client report to the log subscriber and the metrics recorder.
    pub(crate) queue: Arc<reporter::Queue>,
}

/// After the client and all its threads, so their last events come before the end.
impl Drop for Observer {
    fn drop(&mut self) {
        self.events.end(None);
    }
}

impl Observer {
    pub(crate) fn events(&self) -> Subscription<LockEvent> {
        self.events.subscribe()
    }

    /// Reports that one of the client's own threads connected again.
    pub(crate) fn reconnected(&self, node: &Arc<str>) {
        let node = Arc::clone(node);
        self.counters.reconnects.add(1);
        self.emit(&LockEvent::Reconnected {
            node: Arc::clone(&node),
        });
        tell(move || tracing::info!(node = &*node, "connected again"));
    }

    /// Counts a call for a lock or for permits if it did not acquire them.
    pub(crate) fn count_failure(&self, outcome: WaitOutcome) {
        let counters = &self.counters;
        let counter = match outcome {
            WaitOutcome::TIMEOUT => &counters.acquires_timed_out,
            WaitOutcome::UNAVAILABLE => &counters.acquires_unavailable,
            WaitOutcome::REFUSED => &counters.acquires_refused,
            _ => return,
        };
        counter.add(1);
    }

    /// Sends an event to all receivers. Never blocks: a full receiver misses the event.
    pub(crate) fn emit(&self, event: &LockEvent) {
        let dropped = self.events.send(event, EVENT_BUFFER);
        if dropped > 0 {
            self.counters.events_dropped.add(dropped);
        }
    }
}

/// Reports that this thread has waited for a lock or a permit for this long. The holder is the
/// owner id of another client, by the last reply; `None` if a thread of this client has the lock,
/// or no reply has arrived. Its process is not looked up: Redis would list all its connections for
/// each client that waits.
pub(crate) fn long_wait(lock: &str, waited: Duration, holder: Option<&str>) {
    reporter::run(|| {
        tracing::info!(
            lock,
            ?waited,
            holder,
            "still waiting for a lock; `leasehold show` or LockClient::holder finds the process of \
             the holder"
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reconnected() -> LockEvent {
        LockEvent::Reconnected {
            node: "node".into(),
        }
    }

    #[test]
    fn every_receiver_gets_every_event_from_its_start() {
        let observer = Observer::default();
        let first = observer.events();
        observer.emit(&reconnected());
        let second = observer.events();
        observer.emit(&reconnected());
        assert_eq!(first.len(), 2);
        assert_eq!(second.len(), 1);
    }

    #[test]
    fn a_slow_receiver_misses_events_and_does_not_block_the_client() {
        let observer = Observer::default();
        let slow = observer.events();
        for _ in 0..EVENT_BUFFER + 7 {
            observer.emit(&reconnected());
        }
        assert_eq!(slow.len(), EVENT_BUFFER);
        assert_eq!(observer.counters.stats().events_dropped, 7);
    }
}
