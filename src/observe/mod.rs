//! What an operator sees of a client: counters and events.

mod counters;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use parking_lot::Mutex;

pub(crate) use counters::Counters;
pub use counters::Stats;

use crate::error::LostReason;

/// How many events one receiver of [`LockClient::events`](crate::LockClient::events) can be behind.
const EVENT_BUFFER: usize = 1024;

/// Runs code of the user's: what listens to the log, and what records metrics. Its panic is its own
/// and stops here, so that no call and no thread of the crate is left half way.
pub(crate) fn tell(listener: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(listener));
}

/// Something that happened to a lock or a connection without the call that caused it.
///
/// A renewal that failed and a lock that is lost are two things: the first is tried again until the
/// lease is over, and only then becomes the second.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LockEvent {
    /// A renewal, or a look after a fixed lease, got no clear answer. It is tried again while the
    /// lease lasts.
    RenewalFailed {
        /// The name of the lock.
        lock: Arc<str>,
        /// The last failure seen.
        cause: Arc<str>,
        /// How much of the lease is left.
        lease_left: Duration,
    },
    /// A held lock is gone.
    Lost {
        /// The name of the lock.
        lock: Arc<str>,
        /// How it was lost.
        reason: LostReason,
    },
    /// A lock was released after its lease was over by this process's clock, but before anybody
    /// else took it: a warning that leases are too short for the work.
    ReleasedLate {
        /// The name of the lock.
        lock: Arc<str>,
        /// How long the lease had been over.
        late_by: Duration,
    },
    /// A connection of the client's own threads is back after a failure.
    Reconnected {
        /// The node that answers again.
        node: Arc<str>,
    },
}

/// Where all parts of a client report what they see.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    pub(crate) counters: Counters,
    receivers: Mutex<Vec<Sender<LockEvent>>>,
}

impl Observer {
    pub(crate) fn events(&self) -> Receiver<LockEvent> {
        let (sender, receiver) = bounded(EVENT_BUFFER);
        self.receivers.lock().push(sender);
        receiver
    }

    /// A connection of the client's own threads is back.
    pub(crate) fn reconnected(&self, node: &str) {
        self.counters.reconnects.add(1);
        self.emit(&LockEvent::Reconnected { node: node.into() });
        tell(|| tracing::info!(node, "connected again"));
    }

    /// Tells every receiver that still listens. Never blocks: a full one misses the event.
    pub(crate) fn emit(&self, event: &LockEvent) {
        let mut dropped = 0;
        self.receivers
            .lock()
            .retain(|receiver| match receiver.try_send(event.clone()) {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => {
                    dropped += 1;
                    true
                }
                Err(TrySendError::Disconnected(_)) => false,
            });
        if dropped > 0 {
            self.counters.events_dropped.add(dropped);
        }
    }
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
    fn a_listener_that_panics_harms_nobody() {
        let mut told = false;
        tell(|| panic!("it cannot bear to hear this"));
        tell(|| told = true);
        assert!(told);
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
    fn a_slow_receiver_misses_events_and_blocks_nobody() {
        let observer = Observer::default();
        let slow = observer.events();
        for _ in 0..EVENT_BUFFER + 7 {
            observer.emit(&reconnected());
        }
        assert_eq!(slow.len(), EVENT_BUFFER);
        assert_eq!(observer.counters.stats().events_dropped, 7);
    }

    #[test]
    fn a_receiver_that_is_gone_is_forgotten() {
        let observer = Observer::default();
        drop(observer.events());
        observer.emit(&reconnected());
        assert!(observer.receivers.lock().is_empty());
        assert_eq!(observer.counters.stats().events_dropped, 0);
    }
}
