//! What an operator sees of a client: counters and events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use parking_lot::Mutex;

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

/// Counters of one client since it was made. They never go down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Locks taken from Redis; nested acquires of a held lock do not count.
    pub acquisitions: u64,
    /// Nested acquires of a lock that the thread held already.
    pub reentries: u64,
    /// Locks given back to Redis.
    pub releases: u64,
    /// Renewals that Redis confirmed, one for each lock and time; looks after fixed leases, too.
    pub renewals: u64,
    /// Renewals that got no clear answer, one for each lock and time.
    pub renewals_failed: u64,
    /// Script calls that the watchdog made for all its renewals.
    pub renewal_calls: u64,
    /// Held locks that were lost, for any reason.
    pub lost: u64,
    /// Waits for another process that ended with its message, or with a new subscription.
    pub wakeups_by_message: u64,
    /// Waits for another process that ended by the lease that Redis had told, or by a poll.
    pub wakeups_by_timeout: u64,
    /// Connections of the client's own threads that had to be opened again.
    pub reconnects: u64,
    /// Events that a receiver was too slow for.
    pub events_dropped: u64,
}

/// One counter of [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where all parts of a client report what they see.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    pub(crate) acquisitions: Counter,
    pub(crate) reentries: Counter,
    pub(crate) releases: Counter,
    pub(crate) renewals: Counter,
    pub(crate) renewals_failed: Counter,
    pub(crate) renewal_calls: Counter,
    pub(crate) lost: Counter,
    pub(crate) wakeups_by_message: Counter,
    pub(crate) wakeups_by_timeout: Counter,
    pub(crate) reconnects: Counter,
    events_dropped: Counter,
    receivers: Mutex<Vec<Sender<LockEvent>>>,
}

impl Observer {
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            acquisitions: self.acquisitions.get(),
            reentries: self.reentries.get(),
            releases: self.releases.get(),
            renewals: self.renewals.get(),
            renewals_failed: self.renewals_failed.get(),
            renewal_calls: self.renewal_calls.get(),
            lost: self.lost.get(),
            wakeups_by_message: self.wakeups_by_message.get(),
            wakeups_by_timeout: self.wakeups_by_timeout.get(),
            reconnects: self.reconnects.get(),
            events_dropped: self.events_dropped.get(),
        }
    }

    pub(crate) fn events(&self) -> Receiver<LockEvent> {
        let (sender, receiver) = bounded(EVENT_BUFFER);
        self.receivers.lock().push(sender);
        receiver
    }

    /// Tells every receiver that still listens. Never blocks: a full one misses the event.
    pub(crate) fn emit(&self, event: &LockEvent) {
        self.receivers
            .lock()
            .retain(|receiver| match receiver.try_send(event.clone()) {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => {
                    self.events_dropped.add(1);
                    true
                }
                Err(TrySendError::Disconnected(_)) => false,
            });
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
        assert_eq!(observer.stats().events_dropped, 7);
    }

    #[test]
    fn a_receiver_that_is_gone_is_forgotten() {
        let observer = Observer::default();
        drop(observer.events());
        observer.emit(&reconnected());
        assert!(observer.receivers.lock().is_empty());
        assert_eq!(observer.stats().events_dropped, 0);
    }
}
