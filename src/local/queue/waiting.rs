//! How threads wait in the local queue.

use std::sync::Arc;

use super::{Claim, LocalQueue, LockId, Ticket, Waiter};
use crate::base::{HolderId, Moment};

/// The ticket of a lock, as a thread sees it that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TicketState {
    Free,
    /// A thread requests the lock, and has had no reply since the wait began or earlier. So it is
    /// not known whether the lock is free.
    Unanswered,
    /// It is known that the lock is held: a thread of this process holds it, or has confirmed that
    /// another client does. A thread that waits for the readers of its own client is not first, or
    /// wants to write.
    LockIsHeld,
}

impl LocalQueue {
    /// True if a thread may send one request without the ticket of a lock whose kind allows that:
    /// it passes no thread of this client that waits, and no other client is known to wait.
    pub(crate) fn needs_no_ticket(&self, lock: &LockId) -> bool {
        self.read(|locks| {
            locks.entries.get(lock).is_none_or(|entry| {
                let yields = entry.yields.as_ref();
                entry.is_free() && !yields.is_some_and(|yields| yields.is_contended)
            })
        })
    }

    /// A claim without a ticket, for one request.
    pub(crate) fn claim_without_ticket(self: &Arc<Self>, lock: &LockId) -> Claim {
        Claim::new(self, lock.clone(), HolderId::current_thread(), false).kept()
    }

    /// Waits behind the other threads. The queue wakes the thread when it has the ticket. Returns
    /// the ticket if it is free.
    pub(crate) fn enqueue(self: &Arc<Self>, waiter: &Arc<Waiter>) -> Option<Claim> {
        self.change(|locks| {
            let lock = &waiter.wanted.lock;
            let entry = locks.entries.entry(lock.clone()).or_default();
            entry.waiting.push_back(Arc::clone(waiter));
            // Another thread may be the first one: the ticket may have become free a moment ago.
            locks.pass_on(lock, None);
            // The calling thread does not sleep.
            let woken = &mut locks.effects.woken;
            woken.retain(|woken| !Arc::ptr_eq(woken, waiter));
            Claim::of_waiter(self, locks, waiter)
        })
    }

    /// Also wakes a waiting thread when the thread with the ticket gets a reply.
    pub(crate) fn await_reply(&self, waiter: &Arc<Waiter>) {
        self.change(|locks| {
            if let Some(entry) = locks.entries.get_mut(&waiter.wanted.lock) {
                entry.await_reply.push(Arc::clone(waiter));
            }
        });
    }

    /// The ticket, if it was passed on to this waiting thread.
    pub(crate) fn claim_of(self: &Arc<Self>, waiter: &Waiter) -> Option<Claim> {
        self.read(|locks| Claim::of_waiter(self, locks, waiter))
    }

    /// Removes a waiting thread. Returns the ticket if it was passed on to it before that.
    pub(crate) fn leave(self: &Arc<Self>, waiter: &Arc<Waiter>) -> Option<Claim> {
        self.change(|locks| {
            let claim = Claim::of_waiter(self, locks, waiter);
            if claim.is_none() {
                locks.dequeue(waiter);
                // A thread behind it may be the first one now.
                locks.pass_on(&waiter.wanted.lock, None);
            }
            claim
        })
    }

    /// Since when requests for this lock have had no reply; `None` if the last one had a reply.
    pub(crate) fn unanswered_since(&self, lock: &LockId) -> Option<Moment> {
        self.read(|locks| match locks.entries.get(lock)?.ticket {
            Ticket::Requests {
                unanswered_since, ..
            } => unanswered_since,
            Ticket::Free | Ticket::Holds(_) => None,
        })
    }

    /// The ticket of a lock, as a thread sees it that waits since `begun`.
    pub(crate) fn ticket_state(&self, lock: &LockId, begun: Moment) -> TicketState {
        self.read(|locks| {
            let Some(entry) = locks.entries.get(lock) else {
                return TicketState::Free;
            };
            match &entry.ticket {
                Ticket::Requests {
                    unanswered_since: Some(since),
                    ..
                } if *since <= begun => TicketState::Unanswered,
                Ticket::Free if entry.readers.is_empty() => TicketState::Free,
                _ => TicketState::LockIsHeld,
            }
        })
    }
}
