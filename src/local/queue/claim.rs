//! The tickets of a thread, and the grants that came with them.

use std::sync::Arc;

use super::{Entry, LocalQueue, LockId, Locks, TicketOwner, Unanswered, Waiter, wake};
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::{Liveness, ThreadId};
use crate::lease::Terms;
use crate::local::grant::Grant;
use crate::local::hold::{Hold, Unlocks};

/// The right of one thread to request some locks from Redis. When it is dropped, the next waiting
/// threads get the tickets that were not kept.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(super) queue: Arc<LocalQueue>,
    pub(super) locks: List<LockId>,
    pub(super) thread: ThreadId,
    pub(super) is_shared: bool,
    /// Grants came with the tickets: handed over, or idle. No grant is added later. Those that
    /// were handed over may be lost since, and their tickets with them.
    pub(crate) has_grants: bool,
    /// Idle grants may have come with the tickets.
    may_have_idle: bool,
    /// No other thread waited for these locks when the tickets were taken, and no other client was
    /// known to want them.
    pub(crate) is_alone: bool,
    /// Nothing is given back when the claim is dropped.
    is_over: bool,
}

/// What a thread gets with its tickets.
#[derive(Debug)]
pub(crate) enum CameWith {
    /// Only the right to request the locks.
    Nothing,
    /// Holds that another thread has handed over.
    HandedOver(List<Arc<Hold>>),
    /// Holds on grants that were idle.
    Idle(List<Arc<Hold>>),
    /// Idle grants that do not suit this thread. They have ended here, and the caller releases them
    /// in Redis.
    Unsuited(Vec<Arc<Grant>>),
    /// A grant that was handed over was lost before this thread took it. The thread has no tickets.
    Loss,
}

impl Claim {
    /// The claim of a thread that has just got these tickets. [`note`](Self::note) is called for
    /// each.
    pub(super) fn new(
        queue: &Arc<LocalQueue>,
        locks: List<LockId>,
        thread: ThreadId,
        is_shared: bool,
    ) -> Self {
        Self {
            queue: Arc::clone(queue),
            locks,
            thread,
            is_shared,
            has_grants: is_shared,
            may_have_idle: is_shared,
            is_alone: false,
            is_over: false,
        }
    }

    /// The claim of a thread that acquires a shared hold while it holds the lock exclusively. It
    /// uses the ticket of that hold.
    pub(super) fn within(queue: &Arc<LocalQueue>, locks: List<LockId>, thread: ThreadId) -> Self {
        let mut claim = Self::new(queue, locks, thread, true);
        claim.has_grants = false;
        claim.may_have_idle = false;
        claim.is_over = true;
        claim
    }

    /// The claim of a waiting thread to which the tickets were assigned.
    pub(super) fn of_waiter(
        queue: &Arc<LocalQueue>,
        locks: &Locks,
        waiter: &Waiter,
    ) -> Option<Self> {
        waiter.is_assigned().then(|| {
            let mut claim = Self::new(queue, waiter.locks.clone(), waiter.thread, waiter.is_shared);
            for lock in &waiter.locks {
                match locks.entries.get(lock) {
                    Some(entry) => claim.note(entry),
                    // A grant that was handed over is lost.
                    None => claim.has_grants = true,
                }
            }
            claim
        })
    }

    /// Notes what came with one ticket.
    pub(super) fn note(&mut self, entry: &Entry) {
        self.may_have_idle |= entry.idle.is_some();
        self.has_grants |= entry.idle.is_some() || !entry.is_requested_by(self.thread);
        self.is_alone &= entry.waiting.is_empty() && entry.yields.is_fresh();
    }

    /// True if [`take`](Self::take) may end grants, which the caller then releases in Redis.
    pub(crate) fn may_end_grants(&self) -> bool {
        self.may_have_idle
    }

    /// Takes what came with the tickets. `terms` are those of the locks, of which `needed` are
    /// needed, and `kind` is the kind of lock.
    pub(crate) fn take(&mut self, terms: &[Terms], needed: usize, kind: &str) -> CameWith {
        if !self.has_grants {
            return CameWith::Nothing;
        }
        let mut locks = self.queue.0.lock();
        if self.is_shared
            && let Some(hold) = locks.shared_hold(&self.locks, self.thread, terms)
        {
            self.is_over = true;
            hold.take();
            let woken = locks.give_back(&self.locks, self.thread);
            drop(locks);
            wake(&woken);
            return CameWith::HandedOver(List::from([hold]));
        }
        let has_ticket = |lock| locks.has_ticket(lock, self.thread);
        if !self.locks.iter().all(has_ticket) {
            return CameWith::Loss;
        }
        let handed = self.locks.iter().filter_map(|lock| locks.handed(lock));
        let holds: List<_> = handed.collect();
        if (1..needed).contains(&holds.len()) {
            // A grant was lost while it was handed over.
            return CameWith::Loss;
        }
        if !holds.is_empty() {
            self.is_over = true;
            holds.iter().for_each(|hold| hold.take());
            // With a majority, not all locks have a hold.
            let woken = locks.give_back(&self.locks, self.thread);
            drop(locks);
            wake(&woken);
            return CameWith::HandedOver(holds);
        }
        let entries = &mut locks.entries;
        let mut idle = |lock: &LockId| entries.get_mut(lock)?.idle.take();
        let idle: List<Option<Arc<Grant>>> = self.locks.iter().map(&mut idle).collect();
        if idle.iter().all(Option::is_none) {
            return CameWith::Nothing;
        }
        let now = Moment::now();
        let suits = |(grant, &terms): (&Option<Arc<Grant>>, &Terms)| {
            let grant = grant.as_ref();
            grant
                .is_some_and(|grant| grant.kind().name == kind && grant.is_transferable(terms, now))
        };
        let is_whole = idle.iter().zip(terms).all(suits);
        let grants = idle.into_iter().flatten();
        if !is_whole {
            return CameWith::Unsuited(grants.filter(|grant| grant.end()).collect());
        }
        let who = || (self.thread, Liveness::of_this_thread());
        let begin = |(grant, &terms): (Arc<Grant>, &Terms)| Hold::next(&grant, who(), terms, now);
        let holds: List<Arc<Hold>> = grants.zip(terms).filter_map(begin).collect();
        if holds.len() < self.locks.len() {
            // A grant was lost a moment ago.
            let ended = holds.iter().filter(|hold| {
                hold.pop(Unlocks::Level(Hold::FIRST_LEVEL));
                hold.grant().end()
            });
            let grants = ended.map(|hold| hold.grant());
            return CameWith::Unsuited(grants.collect());
        }
        holds.iter().for_each(|hold| hold.take());
        let mut woken = locks.keep(holds.iter());
        if self.is_shared {
            woken.extend(locks.give_back(&self.locks, self.thread));
        }
        self.is_over = true;
        drop(locks);
        wake(&woken);
        CameWith::Idle(holds)
    }

    pub(crate) fn locks(&self) -> &[LockId] {
        &self.locks
    }

    /// Begins a request. Returns since when this request and earlier ones have had no reply, and
    /// the number of holds that a grant is wanted for: of this thread, and of those behind it.
    pub(crate) fn begin_request(&self) -> (Moment, usize) {
        let (mut since, mut holds) = (None::<Moment>, 1);
        let mut locks = self.queue.0.lock();
        for lock in &self.locks {
            let Some(entry) = locks.entries.get_mut(lock) else {
                continue;
            };
            holds = holds.max(entry.contenders());
            // A thread that holds the lock exclusively uses the ticket of that hold for a shared
            // one.
            if let Some(ticket) = entry.ticket.as_mut().filter(|ticket| ticket.hold.is_none()) {
                let unanswered = ticket.unanswered.get_or_insert_with(Unanswered::from_now);
                let one = unanswered.since;
                since = Some(since.map_or(one, |since| since.min(one)));
            }
        }
        (since.unwrap_or_else(Moment::now), holds)
    }

    /// Records a grant that does not count: only this many replicas confirmed it, which is too few.
    pub(crate) fn unreplicated(&self, confirmed: u32) {
        self.on_reply(|ticket| {
            if let Some(unanswered) = &mut ticket.unanswered {
                unanswered.confirmed_replicas = Some(confirmed);
            }
        });
    }

    /// Records a reply. Returns how many threads wait here for the locks, with this one.
    pub(crate) fn replied(&self) -> usize {
        let mut locks = self.queue.0.lock();
        let waiting = locks.on_reply(&self.locks, |ticket| ticket.unanswered = None);
        let entries = self.locks.iter().filter_map(|lock| locks.entries.get(lock));
        let contenders = entries.map(Entry::contenders).max().unwrap_or(1);
        drop(locks);
        wake(&waiting);
        contenders
    }

    /// Records the grants. The thread keeps their tickets until the holds end, and gives the others
    /// back, and those of shared holds.
    pub(crate) fn keep<'a>(mut self, holds: impl ExactSizeIterator<Item = &'a Arc<Hold>>) {
        self.is_over = true;
        let is_whole = holds.len() == self.locks.len();
        // Shared holds and permits keep no ticket. The next thread gets it after a reply.
        let keeps_none = self.is_shared || holds.len() == 0;
        let mut locks = self.queue.0.lock();
        let mut woken = locks.keep(holds);
        if !is_whole || keeps_none {
            woken.extend(locks.on_reply(&self.locks, |ticket| {
                if keeps_none {
                    ticket.unanswered = None;
                }
            }));
            woken.extend(locks.give_back(&self.locks, self.thread));
        }
        drop(locks);
        wake(&woken);
    }

    /// Applies `update` for a reply, and wakes the threads that wait for that reply.
    fn on_reply(&self, update: impl FnMut(&mut TicketOwner)) {
        let waiting = self.queue.0.lock().on_reply(&self.locks, update);
        wake(&waiting);
    }
}

impl Entry {
    /// The thread that has the ticket, and those that wait for it.
    fn contenders(&self) -> usize {
        1 + self.waiting.len()
    }

    /// True if this thread has the ticket, and no hold yet.
    fn is_requested_by(&self, thread: ThreadId) -> bool {
        let ticket = self.ticket.as_ref();
        ticket.is_some_and(|ticket| ticket.thread == thread && ticket.hold.is_none())
    }
}

impl Locks {
    /// Applies `update` to the owners of these tickets. Returns the threads that wait for a reply
    /// to them.
    pub(super) fn on_reply(
        &mut self,
        locks: &[LockId],
        mut update: impl FnMut(&mut TicketOwner),
    ) -> Vec<Arc<Waiter>> {
        let mut waiting = Vec::new();
        for lock in locks {
            if let Some(entry) = self.entries.get_mut(lock) {
                entry.ticket.as_mut().map(&mut update);
                waiting.append(&mut entry.await_reply);
            }
        }
        waiting
    }

    pub(super) fn has_ticket(&self, lock: &LockId, thread: ThreadId) -> bool {
        let ticket = self
            .entries
            .get(lock)
            .and_then(|entry| entry.ticket.as_ref());
        ticket.is_some_and(|ticket| ticket.thread == thread)
    }

    /// The hold that was handed over to the thread with the ticket.
    fn handed(&self, lock: &LockId) -> Option<Arc<Hold>> {
        self.entries.get(lock)?.hold().cloned()
    }

    /// The threads of new holds keep the tickets. Returns the threads that wait for a reply.
    fn keep<'a>(&mut self, holds: impl Iterator<Item = &'a Arc<Hold>>) -> Vec<Arc<Waiter>> {
        let mut waiting = Vec::new();
        for hold in holds {
            if hold.is_shared() {
                // If the thread also held the lock exclusively and that grant is lost now, there is
                // no entry.
                let entry = self.entries.entry(hold.lock().clone()).or_default();
                let threads = entry.contenders() + entry.readers.holds().count();
                entry.yields.granted(threads);
                entry.readers.insert(hold);
                continue;
            }
            let Some(entry) = self.entries.get_mut(hold.lock()) else {
                continue;
            };
            entry.yields.granted(entry.contenders());
            entry.ticket = Some(TicketOwner {
                thread: hold.thread(),
                hold: Some(Arc::clone(hold)),
                unanswered: None,
            });
            waiting.append(&mut entry.await_reply);
        }
        waiting
    }

    /// Passes on the tickets of this thread that have no hold. The next threads inherit the time
    /// since which there has been no reply.
    fn give_back(&mut self, locks: &[LockId], thread: ThreadId) -> Vec<Arc<Waiter>> {
        let mut inherited = None;
        for lock in locks {
            if let Some(entry) = self.entries.get_mut(lock)
                && entry.is_requested_by(thread)
            {
                let ticket = entry.ticket.take();
                inherited = inherited.or(ticket.and_then(|ticket| ticket.unanswered));
            }
        }
        self.pass_on(locks, inherited)
    }
}

impl Claim {
    /// Gives everything back. Returns the grants that are idle now, and have to be released soon.
    pub(crate) fn give_up(mut self) -> Vec<Arc<Grant>> {
        self.give_back()
    }

    fn give_back(&mut self) -> Vec<Arc<Grant>> {
        if std::mem::replace(&mut self.is_over, true) {
            return Vec::new();
        }
        // Holds that were handed over to this thread, which does not use them.
        let handed: List<_> = {
            let locks = self.queue.0.lock();
            let handed = self.locks.iter().filter_map(|lock| {
                let entry = locks.entries.get(lock)?;
                let own = entry.hold().filter(|hold| hold.thread() == self.thread);
                own.or_else(|| entry.readers.untaken(self.thread)).cloned()
            });
            handed.collect()
        };
        let idle = self.queue.pass_on_or_make_idle(&handed);
        let woken = self.queue.0.lock().give_back(&self.locks, self.thread);
        wake(&woken);
        idle
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The watchdog finds what is idle within a second.
        drop(self.give_back());
    }
}
