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

use super::{Claim, ClaimState, Entry, LockId, Locks, Unanswered, Waiter};
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::ThreadId;

impl Claim {
    /// While this thread waits for one of several locks, which another client holds, gives the
    /// tickets of the others back.
    pub(crate) fn give_way(&self, awaited: &LockId) {
        let others = self.locks.iter().filter(|lock| *lock != awaited).cloned();
        let others: List<LockId> = others.collect();
        self.queue
            .change(|locks| locks.give_back(&others, self.thread));
    }

    /// Takes the tickets back that the thread gave back while it waited, before its next request.
    /// False if another thread has one of them or a grant is idle: then the thread has to
    /// [give up](Self::give_up) and to wait for all tickets again. It must not wait for a ticket
    /// while it has another one.
    pub(crate) fn regain(&self, now: Moment) -> bool {
        let mut locks = self.queue.0.lock();
        let is_missing = |lock: &&LockId| !locks.has_ticket(lock, self.thread);
        let missing: List<&LockId> = self.locks.iter().filter(is_missing).collect();
        let is_free = |lock: &&LockId| {
            locks.entries.get(*lock).is_none_or(|entry| {
                entry.has_ticket_for(self.is_shared)
                    && entry.idle.is_none()
                    && locks.may_pass(self.thread, &entry.waiting, now)
            })
        };
        let are_free = missing.iter().all(is_free);
        if are_free {
            for lock in missing {
                locks.take(lock, self.thread, Unanswered::since(now));
            }
        }
        are_free
    }

    /// True if another thread of the client wants one of the locks: it waits for the ticket, or has
    /// it.
    pub(crate) fn is_wanted_by_others(&self) -> bool {
        let locks = self.queue.0.lock();
        self.locks
            .iter()
            .any(|lock| locks.is_wanted_beside(lock, self.thread))
    }

    /// Passes on the tickets of the locks that other threads of the client want. Returns the locks
    /// whose tickets other threads have now. This thread has the other tickets. So the thread with
    /// the ticket decides what becomes of the place of the client in the line.
    pub(crate) fn leave_to_others(&mut self) -> List<LockId> {
        let (locks, thread) = (&self.locks, self.thread);
        let (passed, has_taken) = self.queue.change(|queue| {
            let is_wanted = |lock: &&LockId| queue.is_wanted_beside(lock, thread);
            let mut passed: List<LockId> = locks.iter().filter(is_wanted).cloned().collect();
            queue.give_back(&passed, thread);
            // A thread that waits for several locks may not have got the ticket.
            passed.retain(|lock| !queue.has_free_ticket(lock));
            let free = locks.iter().filter(|lock| queue.has_free_ticket(lock));
            let free: List<&LockId> = free.collect();
            for lock in &free {
                queue.take(lock, thread, Unanswered::since(Moment::now()));
            }
            (passed, !free.is_empty())
        });
        if has_taken {
            self.state = ClaimState::Tickets;
        }
        passed
    }
}

impl Locks {
    fn has_free_ticket(&self, lock: &LockId) -> bool {
        self.entries
            .get(lock)
            .is_none_or(|entry| entry.ticket.is_free())
    }

    fn is_wanted_beside(&self, lock: &LockId, thread: ThreadId) -> bool {
        let entry = self.entries.get(lock);
        entry.is_some_and(|entry| {
            let is_requested = !entry.ticket.is_free() && !entry.ticket.is_of(thread);
            is_requested || !entry.waiting.is_empty()
        })
    }

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
