//! What an operator sees of a client: counters and events.

mod counters;
mod reporter;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;

pub(crate) use counters::Counters;
pub use counters::Stats;
pub(crate) use reporter::{Reporter, tell};

use crate::error::LostReason;

/// How many events one receiver of [`LockClient::events`](crate::LockClient::events) can be behind.
const EVENT_BUFFER: usize = 1024;

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
    /// Its mutex protects: no receiver has more than `EVENT_BUFFER` undelivered events.
    receivers: Mutex<Vec<Sender<LockEvent>>>,
    queue: Arc<reporter::Queue>,
}

impl Observer {
    pub(crate) fn events(&self) -> Receiver<LockEvent> {
        // A bounded channel would allocate its whole buffer now, and keep it until the next event
        // even if the receiver is dropped: only a message that cannot be sent tells of that.
        let (sender, receiver) = unbounded();
        self.receivers.lock().push(sender);
        receiver
    }

    /// Starts the thread that calls the application's log subscriber and metrics recorder for the
    /// threads of the client.
    pub(crate) fn start_reporter(&self) -> io::Result<Reporter> {
        Reporter::start(Arc::clone(&self.queue))
    }

    /// Starts a thread of the client. Its calls of [`tell`] are made by the reporter.
    pub(crate) fn spawn(
        &self,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        self.queue.spawn(name, body)
    }

    /// A connection of the client's own threads is back.
    pub(crate) fn reconnected(&self, node: &Arc<str>) {
        let node = Arc::clone(node);
        self.counters.reconnects.add(1);
        self.emit(&LockEvent::Reconnected {
            node: Arc::clone(&node),
        });
        tell(move || tracing::info!(node = &*node, "connected again"));
    }

    /// Sends the event to every receiver that is not dropped. Never blocks: a full receiver misses
    /// the event.
    pub(crate) fn emit(&self, event: &LockEvent) {
        let mut dropped = 0;
        self.receivers.lock().retain(|receiver| {
            if receiver.len() >= EVENT_BUFFER {
                dropped += 1;
                return true;
            }
            receiver.send(event.clone()).is_ok()
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
