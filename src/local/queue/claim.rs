//! The tickets of a thread, and the grants that came with them.

use std::sync::Arc;

use super::{Entry, LocalQueue, LockId, Locks, Ticket, Unanswered, Waiter};
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::{Liveness, ThreadId};
use crate::lease::Terms;
use crate::local::grant::{Grant, Hold, Unlocks};
use crate::protocol::Kind;

/// The right of one thread to request some locks from Redis. When it is dropped, the next waiting
/// threads get the tickets that were not kept.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(super) queue: Arc<LocalQueue>,
    pub(super) locks: List<LockId>,
    pub(super) thread: ThreadId,
    pub(super) is_shared: bool,
    pub(super) state: ClaimState,
    /// No other thread waited for these locks when the tickets were taken, and no other client was
    /// known to want them.
    pub(crate) is_alone: bool,
    /// Another thread of the client had the tickets before. It may have left the place of the
    /// client in the line to this thread.
    pub(crate) is_inherited: bool,
}

/// What a claim has. Noted when the claim is made; later it only becomes `Kept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimState {
    /// The tickets.
    Tickets,
    /// Grants may have come with the tickets: holds that were handed over, idle grants, or a grant
    /// that other threads share. They may be lost since, and the tickets of holds with them.
    MayHaveGrants,
    /// Nothing that it gives back when it is dropped: holds have the tickets.
    Kept,
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
            state: match is_shared {
                true => ClaimState::MayHaveGrants,
                false => ClaimState::Tickets,
            },
            is_alone: false,
            is_inherited: false,
        }
    }

    /// The claim of a waiting thread to which the tickets were assigned.
    pub(super) fn of_waiter(
        queue: &Arc<LocalQueue>,
        locks: &Locks,
        waiter: &Waiter,
    ) -> Option<Self> {
        let Waiter { thread, wanted, .. } = waiter;
        waiter.is_assigned().then(|| {
            let mut claim = Self::new(queue, wanted.locks.clone(), *thread, wanted.is_shared);
            claim.is_inherited = true;
            for lock in &wanted.locks {
                match locks.entries.get(lock) {
                    Some(entry) => claim.note(entry),
                    // A grant that was handed over is lost.
                    None => claim.state = ClaimState::MayHaveGrants,
                }
            }
            claim
        })
    }

    /// Notes what came with one ticket.
    pub(super) fn note(&mut self, entry: &Entry) {
        if entry.idle.is_some() || !entry.is_requested_by(self.thread) {
            self.state = ClaimState::MayHaveGrants;
        }
        self.is_alone &= entry.waiting.is_empty() && entry.is_fresh();
    }

    /// True if grants may have come with the tickets, which the thread [takes](Self::take).
    pub(crate) fn has_grants(&self) -> bool {
        self.state == ClaimState::MayHaveGrants
    }

    /// Takes what came with the tickets. `terms` are those of the locks, of which `needed` are
    /// needed, and `kind` is the kind of lock.
    pub(crate) fn take(&mut self, terms: &[Terms], needed: usize, kind: &Kind) -> CameWith {
        if !self.has_grants() {
            return CameWith::Nothing;
        }
        let came = self.queue.change(|locks| {
            let came = locks.take_grants(self, terms, needed, kind);
            let (CameWith::HandedOver(holds) | CameWith::Idle(holds)) = &came else {
                return came;
            };
            holds.iter().for_each(|hold| hold.take());
            if matches!(came, CameWith::Idle(_)) {
                locks.keep(holds.iter());
            }
            // Shared holds keep no ticket. With a majority, not all locks have a hold.
            if self.is_shared || holds.len() < self.locks.len() {
                locks.give_back(&self.locks, self.thread);
            }
            came
        });
        if matches!(came, CameWith::HandedOver(_) | CameWith::Idle(_)) {
            self.state = ClaimState::Kept;
        }
        came
    }

    pub(crate) fn locks(&self) -> &[LockId] {
        &self.locks
    }

    /// Begins a request. Returns since when this request and earlier ones have had no reply, and
    /// the number of holds that a grant is wanted for: of this thread, and of those behind it.
    pub(crate) fn begin_request(&self) -> (Moment, usize) {
        let (mut since, mut holds) = (Moment::now(), 1);
        let mut locks = self.queue.0.lock();
        for lock in &self.locks {
            let Some(entry) = locks.entries.get_mut(lock) else {
                continue;
            };
            holds = holds.max(entry.contenders());
            // A thread that holds the lock exclusively uses the ticket of that hold for a shared
            // one.
            if let Some(unanswered) = entry.ticket.unanswered() {
                since = since.min(unanswered.get_or_insert(Unanswered::since(since)).since);
            }
        }
        (since, holds)
    }

    /// Records a grant that does not count: only this many replicas confirmed it, which is too few.
    pub(crate) fn unreplicated(&self, confirmed: u32) {
        self.queue.change(|locks| {
            locks.on_reply(&self.locks, |unanswered| {
                if let Some(unanswered) = unanswered {
                    unanswered.confirmed_replicas = Some(confirmed);
                }
            });
        });
    }

    /// Records a reply.
    pub(crate) fn replied(&self) {
        self.queue
            .change(|locks| locks.on_reply(&self.locks, |unanswered| *unanswered = None));
    }

    /// Records the grants. The thread keeps their tickets until the holds end, and gives the others
    /// back, and those of shared holds.
    pub(crate) fn keep<'a>(mut self, holds: impl ExactSizeIterator<Item = &'a Arc<Hold>>) {
        self.state = ClaimState::Kept;
        let is_whole = holds.len() == self.locks.len();
        // Shared holds and permits keep no ticket. The next thread gets it after a reply.
        let keeps_none = self.is_shared || holds.len() == 0;
        self.queue.change(|locks| {
            locks.keep(holds);
            if !is_whole || keeps_none {
                locks.on_reply(&self.locks, |unanswered| {
                    if keeps_none {
                        *unanswered = None;
                    }
                });
                locks.give_back(&self.locks, self.thread);
            }
        });
    }

    /// Gives everything back. Returns the grants that are idle now, and have to be released soon.
    pub(crate) fn give_up(&mut self) -> Vec<Arc<Grant>> {
        if std::mem::replace(&mut self.state, ClaimState::Kept) == ClaimState::Kept {
            return Vec::new();
        }
        let (idle, handed) = self.queue.change(|locks| {
            // Holds that were handed over to this thread, which does not use them.
            let handed = self.locks.iter().filter_map(|lock| {
                let entry = locks.entries.get(lock)?;
                let own = entry.hold().filter(|hold| hold.thread == self.thread);
                own.or_else(|| entry.readers.untaken(self.thread)).cloned()
            });
            let handed: List<_> = handed.collect();
            let idle = locks.pass_on_or_make_idle(&handed);
            locks.give_back(&self.locks, self.thread);
            (idle, handed)
        });
        // These may be the last references, so they are not dropped under the mutex.
        drop(handed);
        idle
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The watchdog finds what is idle within a second.
        drop(self.give_up());
    }
}

impl Entry {
    /// The thread that has the ticket, and those that wait for it.
    fn contenders(&self) -> usize {
        1 + self.waiting.len()
    }

    /// Records that Redis granted the lock when this many threads wanted it.
    fn granted(&mut self, threads: usize) {
        if let Some(yields) = &mut self.yields {
            yields.granted(threads);
        }
    }

    /// True if this thread has the ticket, and no hold yet.
    fn is_requested_by(&self, thread: ThreadId) -> bool {
        self.hold().is_none() && self.ticket.is_of(thread)
    }
}

impl Locks {
    /// Applies `update` to what is unanswered of these locks, and wakes the threads that wait for a
    /// reply.
    pub(super) fn on_reply(
        &mut self,
        locks: &[LockId],
        mut update: impl FnMut(&mut Option<Unanswered>),
    ) {
        for lock in locks {
            if let Some(entry) = self.entries.get_mut(lock) {
                entry.ticket.unanswered().map(&mut update);
                self.effects.woken.append(&mut entry.await_reply);
            }
        }
    }

    pub(super) fn has_ticket(&self, lock: &LockId, thread: ThreadId) -> bool {
        let entry = self.entries.get(lock);
        entry.is_some_and(|entry| entry.ticket.is_of(thread))
    }

    /// What came with the tickets of a claim: see [`Claim::take`].
    fn take_grants(
        &mut self,
        claim: &Claim,
        terms: &[Terms],
        needed: usize,
        kind: &Kind,
    ) -> CameWith {
        let locks = &claim.locks;
        if claim.is_shared
            && let Some(hold) = self.shared_hold(locks, claim.thread, terms)
        {
            return CameWith::HandedOver(List::from([hold]));
        }
        if !locks.iter().all(|lock| self.has_ticket(lock, claim.thread)) {
            return CameWith::Loss;
        }
        let handed = locks
            .iter()
            .filter_map(|lock| self.entries.get(lock)?.hold());
        let handed: List<_> = handed.cloned().collect();
        match handed.len() {
            0 => {}
            // A grant was lost while it was handed over.
            held if held < needed => return CameWith::Loss,
            _ => return CameWith::HandedOver(handed),
        }
        let mut idle = |lock: &LockId| self.entries.get_mut(lock)?.idle.take();
        let idle: List<Option<Arc<Grant>>> = locks.iter().map(&mut idle).collect();
        let now = Moment::now();
        let suits = |(grant, &terms): (&Option<Arc<Grant>>, &Terms)| {
            let grant = grant.as_ref();
            grant.is_some_and(|one| one.kind == kind && one.is_transferable(terms, now))
        };
        let is_whole = idle.iter().zip(terms).all(suits);
        let mut grants = idle.into_iter().flatten().peekable();
        if grants.peek().is_none() {
            return CameWith::Nothing;
        }
        if !is_whole {
            return CameWith::Unsuited(grants.filter(|grant| grant.end()).collect());
        }
        let who = || (claim.thread, Liveness::of_this_thread());
        let begin = |(grant, &terms): (Arc<Grant>, &Terms)| grant.hand_over(who(), terms, now);
        let holds: List<Arc<Hold>> = grants.zip(terms).filter_map(begin).collect();
        if holds.len() == locks.len() {
            return CameWith::Idle(holds);
        }
        // A grant was lost a moment ago.
        let ended = holds.iter().filter(|hold| {
            hold.pop(Unlocks::Level(Hold::FIRST_LEVEL));
            hold.grant().end()
        });
        CameWith::Unsuited(ended.map(|hold| hold.grant()).collect())
    }

    /// The threads of new holds keep the tickets. Wakes the threads that wait for a reply.
    fn keep<'a>(&mut self, holds: impl Iterator<Item = &'a Arc<Hold>>) {
        for hold in holds {
            if hold.is_shared() {
                // If the thread also held the lock exclusively and that grant is lost now, there is
                // no entry.
                let entry = self.entries.entry(hold.lock.clone()).or_default();
                let threads = entry.contenders() + entry.readers.holds().count();
                entry.granted(threads);
                entry.readers.insert(hold);
            } else if let Some(entry) = self.entries.get_mut(&hold.lock) {
                entry.granted(entry.contenders());
                entry.ticket = Ticket::Holds(Arc::clone(hold));
                self.effects.woken.append(&mut entry.await_reply);
            }
        }
    }

    /// Passes on the tickets of this thread that have no hold. The next threads inherit the time
    /// since which there has been no reply.
    pub(super) fn give_back(&mut self, locks: &[LockId], thread: ThreadId) {
        let mut inherited = None;
        for lock in locks {
            if let Some(entry) = self.entries.get_mut(lock)
                && entry.is_requested_by(thread)
            {
                let unanswered = entry.ticket.unanswered().and_then(|one| *one);
                inherited = inherited.or(unanswered);
                entry.ticket = Ticket::Free;
            }
        }
        self.pass_on(locks, inherited);
    }
}
