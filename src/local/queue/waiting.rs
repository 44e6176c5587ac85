//! How threads wait in the local queue.

use std::sync::Arc;

use super::waiter::last_end_of_a_period;
use super::{Claim, Entry, LocalQueue, LockId, Locks, Ticket, Unanswered, Waiter};
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::ThreadId;

impl LocalQueue {
    /// A claim without tickets, for one request for a lock whose holds do not exclude each other.
    /// `None` if a thread of this client waits for that lock, and this one would pass it, or if
    /// other clients are known to wait.
    pub(crate) fn claim_without_ticket(
        self: &Arc<Self>,
        lock: &LockId,
        may_pass: bool,
    ) -> Option<Claim> {
        let is_free = || {
            let locks = self.0.lock();
            let entry = locks.entries.get(lock);
            let is_contended =
                |entry: &Entry| entry.yields.as_ref().is_some_and(|one| one.is_contended);
            entry.is_none_or(|entry| entry.is_free() && !is_contended(entry))
        };
        (may_pass || is_free()).then(|| Claim::new(self, List::new(), ThreadId::current(), false))
    }

    /// Waits behind the other threads, or before them if the thread had tickets before they came.
    /// The queue wakes the thread when it has the tickets. Returns the tickets if all are free.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        waiter: &Arc<Waiter>,
        had_tickets: bool,
    ) -> Option<Claim> {
        self.change(|locks| {
            for lock in &waiter.wanted.locks {
                let entry = locks.entries.entry(lock.clone()).or_default();
                match had_tickets {
                    true => entry.waiting.push_front(Arc::clone(waiter)),
                    false => entry.waiting.push_back(Arc::clone(waiter)),
                }
            }
            // Another thread may be the first one: the tickets may have become free a moment ago.
            locks.pass_on(&waiter.wanted.locks, None);
            // The calling thread does not sleep.
            let woken = &mut locks.effects.woken;
            woken.retain(|woken| !Arc::ptr_eq(woken, waiter));
            Claim::of_waiter(self, locks, waiter)
        })
    }

    /// Also wakes a waiting thread when a thread with one of the tickets gets a reply.
    pub(crate) fn await_reply(&self, waiter: &Arc<Waiter>) {
        let mut locks = self.0.lock();
        for lock in &waiter.wanted.locks {
            if let Some(entry) = locks.entries.get_mut(lock) {
                entry.await_reply.push(Arc::clone(waiter));
            }
        }
    }

    /// Gives tickets to the threads that this waiting thread has kept from passing it, and does not
    /// any more.
    ///
    /// Threads that keep their places cease to at the same moments. So one of those that wait for a
    /// lock looks at it for all of them.
    pub(crate) fn look_again(&self, waiter: &Waiter) {
        self.look_unless_done_since(waiter, |now| {
            // In tests a thread ceases to keep its place at any time.
            if cfg!(test) {
                Moment::NEVER
            } else {
                last_end_of_a_period(now)
            }
        });
    }

    /// Looks at the locks that no thread has looked at since a moment, which `since` computes from
    /// the present one.
    pub(super) fn look_unless_done_since(
        &self,
        waiter: &Waiter,
        since: impl FnOnce(Moment) -> Moment,
    ) {
        if !waiter.wants_several() {
            return;
        }
        self.change(|locks| {
            // Under the mutex: another thread may have looked before the end of a period meanwhile.
            let now = Moment::now();
            let since = since(now);
            let is_due = |lock: &&LockId| {
                let entry = locks.entries.get_mut(*lock);
                entry.is_some_and(|entry| std::mem::replace(&mut entry.looked, now) < since)
            };
            let due: Vec<&LockId> = waiter.wanted.locks.iter().filter(is_due).collect();
            locks.pass_on(due, None);
        });
    }

    /// The tickets, if they were passed on to this waiting thread.
    pub(crate) fn claim_of(self: &Arc<Self>, waiter: &Waiter) -> Option<Claim> {
        Claim::of_waiter(self, &self.0.lock(), waiter)
    }

    /// Removes a waiting thread. Returns the tickets if they were passed on to it before that.
    pub(crate) fn leave(self: &Arc<Self>, waiter: &Arc<Waiter>) -> Option<Claim> {
        self.change(|locks| {
            let claim = Claim::of_waiter(self, locks, waiter);
            if claim.is_none() {
                locks.dequeue(waiter);
                // A thread behind it may be the first one now.
                locks.pass_on(&waiter.wanted.locks, None);
            }
            claim
        })
    }

    /// Since when requests for these locks have had no reply; `None` if the last ones had a reply.
    pub(crate) fn unanswered_since(&self, locks: &[LockId]) -> Option<Moment> {
        let guard = self.0.lock();
        let unanswered = guard.unanswered(locks);
        unanswered.map(|unanswered| unanswered.since).min()
    }

    /// How many of these locks other threads request, without a reply since `heard` or earlier.
    /// `None` if it is known that one of the locks is held: a thread of this process holds it, or
    /// has confirmed that another client does. A thread that waits for the readers of its own
    /// client is not first, or wants to write.
    pub(crate) fn outstanding_replies(&self, locks: &[LockId], heard: Moment) -> Option<usize> {
        let guard = self.0.lock();
        let mut outstanding = 0;
        for entry in locks.iter().filter_map(|lock| guard.entries.get(lock)) {
            match &entry.ticket {
                Ticket::Requests {
                    unanswered: Some(unanswered),
                    ..
                } if unanswered.since <= heard => outstanding += 1,
                Ticket::Free if entry.readers.is_empty() => {}
                _ => return None,
            }
        }
        Some(outstanding)
    }

    /// Set if the last request was granted, but only this many replicas confirmed it: too few.
    pub(crate) fn confirmed_replicas(&self, locks: &[LockId]) -> Option<u32> {
        let guard = self.0.lock();
        let mut unanswered = guard.unanswered(locks);
        unanswered.find_map(|unanswered| unanswered.confirmed_replicas)
    }
}

impl Locks {
    fn unanswered(&self, locks: &[LockId]) -> impl Iterator<Item = Unanswered> {
        let entries = locks.iter().filter_map(|lock| self.entries.get(lock));
        entries.filter_map(|entry| match entry.ticket {
            Ticket::Requests { unanswered, .. } => unanswered,
            Ticket::Free | Ticket::Holds(_) => None,
        })
    }
}
