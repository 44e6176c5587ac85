//! Which waiting thread gets a lock next, and which threads may pass it.

use std::sync::Arc;

use super::{Entry, LockId, Locks, Waiter};
use crate::base::clock::Moment;
use crate::base::owner::ThreadId;

impl Locks {
    /// The first thread that waits for this lock and can have all tickets that it waits for.
    pub(super) fn next_for(&self, lock: &LockId) -> Option<Arc<Waiter>> {
        let entry = self.entries.get(lock)?;
        let first = entry.waiting.front()?;
        if !entry.has_ticket_for(first.is_shared) {
            return None;
        }
        let now = Moment::now();
        let can_have = |waiter: &&Arc<Waiter>| {
            let is_taken = |at| {
                let entry = self.entries.get(&waiter.locks[at])?;
                let is_available =
                    entry.has_ticket_for(waiter.is_shared) && self.is_next(waiter, entry, now);
                (!is_available).then_some(())
            };
            waiter.obstacle(is_taken).is_none()
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
        let is_taken = |lock| {
            let entry: Option<&Entry> = self.entries.get(lock);
            entry
                .is_some_and(|entry| !entry.is_available())
                .then_some(())
        };
        let holds = |lock| self.has_ticket(lock, thread);
        waiting.into_iter().all(|other| {
            other.wants_several()
                && other.obstacle(|at| is_taken(&other.locks[at])).is_some()
                && (!other.keeps_place(now) || other.locks.iter().any(holds))
        })
    }
}
