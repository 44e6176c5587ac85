//! Which waiting thread gets a lock next, and which threads may pass it.
//!
//! A thread that has the tickets of several locks, of which another client holds one, gives the
//! others back after a second, and is the next for them if it does not get them back at once.
//!
//! Threads pass a thread that wants several locks while one of these is not free. In the last
//! quarter of each period of a clock, only threads that hold one of these locks pass it, so it gets
//! its locks. That time is the same for all threads, and ends, so no thread waits indefinitely for
//! a free ticket.

use std::sync::Arc;

use super::{Entry, LockId, Locks, Waiter};
use crate::base::clock::Moment;
use crate::base::owner::ThreadId;

impl Locks {
    /// The first thread that waits for this lock and can have all tickets that it waits for.
    pub(super) fn next_for(&self, lock: &LockId) -> Option<Arc<Waiter>> {
        let entry = self.entries.get(lock)?;
        let first = entry.waiting.front()?;
        if !entry.has_ticket_for(first.wanted.is_shared) {
            return None;
        }
        let now = Moment::now();
        let can_have = |waiter: &&Arc<Waiter>| {
            let is_for_another = |entry: &&Entry| {
                !entry.has_ticket_for(waiter.wanted.is_shared) || !self.is_next(waiter, entry, now)
            };
            let obstacle = |at| {
                self.entries
                    .get(&waiter.wanted.locks[at])
                    .filter(is_for_another)
            };
            waiter.obstacle(obstacle).is_none()
        };
        let next = entry.first_or_several().find(can_have);
        next.map(Arc::clone)
    }

    /// True if no thread that waits for this lock has to get it before this waiting thread.
    pub(super) fn is_next(&self, waiter: &Arc<Waiter>, entry: &Entry, now: Moment) -> bool {
        let before = entry.waiting.iter();
        let before = before.take_while(|other| !Arc::ptr_eq(other, waiter));
        self.may_pass(waiter.thread, before, now)
    }

    /// True if a thread may get a lock before these waiting threads: they want several locks, of
    /// which one is not free.
    pub(super) fn may_pass<'a>(
        &self,
        thread: ThreadId,
        waiting: impl IntoIterator<Item = &'a Arc<Waiter>>,
        now: Moment,
    ) -> bool {
        let is_taken = |entry: &&Entry| !entry.is_available();
        let taken = |lock| self.entries.get(lock).filter(is_taken);
        let holds = |lock| self.has_ticket(lock, thread);
        waiting.into_iter().all(|other| {
            other.wants_several()
                && other
                    .obstacle(|at| taken(&other.wanted.locks[at]))
                    .is_some()
                && (!other.keeps_place(now) || other.wanted.locks.iter().any(holds))
        })
    }
}
