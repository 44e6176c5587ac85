//! The ticket of a thread, and the grant that came with it.

use std::sync::Arc;

use super::{Entry, LocalQueue, LockId, Locks, Ticket, Waiter};
use crate::base::owner::Liveness;
use crate::base::{HolderId, List, Moment};
use crate::lease::Terms;
use crate::local::grant::{Grant, Hold};
use crate::protocol::Kind;

/// The right of one thread to request a lock from Redis. When it is dropped, the next waiting
/// thread gets the ticket, unless it was kept.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(super) queue: Arc<LocalQueue>,
    pub(super) lock: LockId,
    pub(super) holder: HolderId,
    pub(super) is_shared: bool,
    state: ClaimState,
    /// No other thread waited for the lock when the ticket was taken, and no other client was known
    /// to want it.
    pub(crate) is_alone: bool,
    /// Another thread of the client had the ticket before. It may have left the place of the client
    /// in the line to this thread.
    pub(crate) is_inherited: bool,
}

/// What a claim has. Noted when the claim is made; later it only becomes `Kept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimState {
    /// The ticket.
    Ticket,
    /// A grant may have come with the ticket: a hold that was handed over, an idle grant, or a
    /// grant that other threads share. It may be lost since, and the ticket of a hold with it.
    MayHaveGrant,
    /// Nothing that it gives back when it is dropped: a hold has the ticket, or it never had one.
    Kept,
}

/// What a thread gets with its ticket.
#[derive(Debug)]
pub(crate) enum CameWith {
    /// Only the right to request the lock.
    Nothing,
    /// A hold that another thread has handed over.
    HandedOver(Arc<Hold>),
    /// A hold on a grant that was idle.
    Idle(Arc<Hold>),
    /// An idle grant that does not suit this thread. It has ended here, and the caller releases it
    /// in Redis.
    Unsuited(Arc<Grant>),
    /// A grant that was handed over was lost before this thread took it. The thread has no ticket.
    Loss,
}

impl CameWith {
    /// What an idle grant is for a thread that wants a hold with these terms. It is not idle any
    /// more.
    fn of_idle(grant: Arc<Grant>, holder: HolderId, terms: Terms, kind: &Kind) -> Self {
        let now = Moment::now();
        if grant.kind == kind && grant.is_transferable(terms, now) {
            let liveness = Liveness::of(holder);
            if let Some(hold) = grant.next_hold(holder, liveness, terms, now) {
                return Self::Idle(hold);
            }
        }
        match grant.end() {
            true => Self::Unsuited(grant),
            // It was lost a moment ago.
            false => Self::Nothing,
        }
    }
}

impl Claim {
    /// The claim of a thread that has just got this ticket. [`note`](Self::note) is called next.
    pub(super) fn new(
        queue: &Arc<LocalQueue>,
        lock: LockId,
        holder: HolderId,
        is_shared: bool,
    ) -> Self {
        Self {
            queue: Arc::clone(queue),
            lock,
            holder,
            is_shared,
            state: match is_shared {
                true => ClaimState::MayHaveGrant,
                false => ClaimState::Ticket,
            },
            is_alone: false,
            is_inherited: false,
        }
    }

    /// The claim of a thread that has no ticket, or whose hold has it.
    pub(super) fn kept(self) -> Self {
        let mut kept = self;
        kept.state = ClaimState::Kept;
        kept
    }

    /// The claim of a waiting thread to which the ticket was assigned.
    pub(super) fn of_waiter(
        queue: &Arc<LocalQueue>,
        locks: &Locks,
        waiter: &Waiter,
    ) -> Option<Self> {
        let Waiter { holder, wanted, .. } = waiter;
        waiter.is_assigned().then(|| {
            let is_shared = wanted.kind.is_shared;
            let mut claim = Self::new(queue, wanted.lock.clone(), *holder, is_shared);
            claim.is_inherited = true;
            match locks.entries.get(&wanted.lock) {
                Some(entry) => claim.note(entry),
                // A grant that was handed over is lost.
                None => claim.state = ClaimState::MayHaveGrant,
            }
            claim
        })
    }

    /// Notes what came with the ticket.
    pub(super) fn note(&mut self, entry: &Entry) {
        if entry.idle.is_some() || !entry.is_requested_by(self.holder) {
            self.state = ClaimState::MayHaveGrant;
        }
        self.is_alone &= entry.waiting.is_empty() && entry.is_fresh();
    }

    /// True if a grant may have come with the ticket, which the thread [takes](Self::take).
    pub(crate) fn has_grant(&self) -> bool {
        self.state == ClaimState::MayHaveGrant
    }

    /// Takes what came with the ticket, for a hold with these terms.
    pub(crate) fn take(&mut self, terms: Terms, kind: &Kind) -> CameWith {
        if !self.has_grant() {
            return CameWith::Nothing;
        }
        let came = self.queue.change(|locks| {
            let came = locks.take_grant(self, terms, kind);
            let (CameWith::HandedOver(hold) | CameWith::Idle(hold)) = &came else {
                return came;
            };
            hold.take();
            if matches!(came, CameWith::Idle(_)) {
                locks.keep(hold, true);
            }
            if self.is_shared {
                // Shared holds keep no ticket.
                locks.free_ticket(&self.lock, self.holder);
            }
            came
        });
        if matches!(came, CameWith::HandedOver(_) | CameWith::Idle(_)) {
            self.state = ClaimState::Kept;
        }
        came
    }

    /// Begins a request. Returns since when this request and earlier ones have had no reply, and
    /// the number of holds that a grant is wanted for: of this thread, and of those behind it.
    pub(crate) fn begin_request(&self) -> (Moment, usize) {
        let now = Moment::now();
        self.queue.change(|locks| {
            let entry = locks.entries.get_mut(&self.lock);
            let Some(entry) = entry.filter(|entry| entry.ticket.is_of(self.holder)) else {
                return (now, 1);
            };
            let holds = entry.contenders();
            // A thread that holds the lock exclusively uses the ticket of that hold for a shared
            // one.
            let unanswered = entry.ticket.unanswered_since();
            let since = unanswered.map_or(now, |since| *since.get_or_insert(now));
            (since.min(now), holds)
        })
    }

    /// Records a reply.
    pub(crate) fn replied(&self) {
        self.queue.change(|locks| locks.on_reply(self));
    }

    /// Records the grant. The thread keeps the ticket until the hold ends, and gives it back if the
    /// hold is shared. An adopted hold has no ticket.
    ///
    /// Returns the grants that exclude this hold, idle or of others: Redis has lost them, or it
    /// would not have granted this one. The caller ends them before the thread learns of its hold.
    pub(crate) fn keep(mut self, hold: &Arc<Hold>) -> List<Arc<Grant>> {
        let has_ticket = self.state != ClaimState::Kept;
        self.state = ClaimState::Kept;
        self.queue.change(|locks| {
            let entry = locks.entries.get(&self.lock);
            let excluded = entry.map_or_else(List::new, |entry| entry.excluded_by(hold));
            locks.keep(hold, has_ticket);
            if self.is_shared {
                locks.free_ticket_after_reply(&self);
            }
            excluded
        })
    }

    /// Records a grant that keeps no ticket, that of a permit. The next thread gets it.
    pub(crate) fn pass_on(mut self) {
        self.state = ClaimState::Kept;
        self.queue
            .change(|locks| locks.free_ticket_after_reply(&self));
    }

    /// True if another thread of the client wants the lock: it waits for the ticket, or has it.
    pub(crate) fn is_wanted_by_others(&self) -> bool {
        let is_wanted = |locks: &Locks| locks.is_wanted_beside(&self.lock, self.holder);
        self.queue.read(is_wanted)
    }

    /// Passes the ticket on if another thread of the client wants the lock. True if that thread has
    /// it now. Then it decides what becomes of the place of the client in the line.
    pub(crate) fn pass_on_if_wanted(&mut self) -> bool {
        self.queue.change(|locks| {
            let (lock, holder) = (&self.lock, self.holder);
            if !locks.is_wanted_beside(lock, holder) {
                return false;
            }
            locks.free_ticket(lock, holder);
            let entry = locks.entries.get(lock);
            let is_free = entry.is_none_or(|entry| entry.ticket.is_free());
            if is_free {
                // A thread that wants to write waits for the readers of this client.
                locks.give_ticket(lock, holder, Moment::now());
            }
            !is_free
        })
    }

    /// Gives everything back. Returns a grant that is idle now, and has to be released soon.
    pub(crate) fn give_up(&mut self) -> Option<Arc<Grant>> {
        if std::mem::replace(&mut self.state, ClaimState::Kept) == ClaimState::Kept {
            return None;
        }
        let (idle, handed) = self.queue.change(|locks| {
            // A hold that was handed over to this thread, which does not use it.
            let handed = locks.entries.get(&self.lock).and_then(|entry| {
                let own = entry.hold().filter(|hold| hold.holder == self.holder);
                own.or_else(|| entry.readers.untaken(self.holder)).cloned()
            });
            let idle = handed
                .as_ref()
                .and_then(|hold| locks.pass_on_or_make_idle(hold));
            locks.free_ticket(&self.lock, self.holder);
            (idle, handed)
        });
        // This may be the last reference, so it is not dropped under the mutex.
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
    fn is_requested_by(&self, holder: HolderId) -> bool {
        self.hold().is_none() && self.ticket.is_of(holder)
    }
}

impl Locks {
    /// Records a reply to the requests with this claim, and wakes the threads that wait for one.
    pub(super) fn on_reply(&mut self, claim: &Claim) {
        if let Some(entry) = self.entries.get_mut(&claim.lock)
            && entry.ticket.is_of(claim.holder)
        {
            entry.ticket.unanswered_since().and_then(Option::take);
            self.effects.woken.append(&mut entry.await_reply);
        }
    }

    fn has_ticket(&self, lock: &LockId, holder: HolderId) -> bool {
        let entry = self.entries.get(lock);
        entry.is_some_and(|entry| entry.ticket.is_of(holder))
    }

    fn is_wanted_beside(&self, lock: &LockId, holder: HolderId) -> bool {
        let entry = self.entries.get(lock);
        entry.is_some_and(|entry| {
            let is_requested = !entry.ticket.is_free() && !entry.ticket.is_of(holder);
            is_requested || !entry.waiting.is_empty()
        })
    }

    /// What came with the ticket of a claim: see [`Claim::take`].
    fn take_grant(&mut self, claim: &Claim, terms: Terms, kind: &Kind) -> CameWith {
        let (lock, holder) = (&claim.lock, claim.holder);
        let has_ticket = self.has_ticket(lock, holder);
        let Some(entry) = self.entries.get_mut(lock) else {
            return CameWith::Loss;
        };
        if claim.is_shared
            && let Some(hold) = entry.shared_hold(holder, terms, has_ticket)
        {
            return CameWith::HandedOver(hold);
        }
        if !has_ticket {
            return CameWith::Loss;
        }
        if let Some(hold) = entry.hold() {
            return CameWith::HandedOver(Arc::clone(hold));
        }
        let idle = entry.idle.take();
        idle.map_or(CameWith::Nothing, |grant| {
            CameWith::of_idle(grant, holder, terms, kind)
        })
    }

    /// The thread of a new hold keeps the ticket. Wakes the threads that wait for a reply.
    fn keep(&mut self, hold: &Arc<Hold>, has_ticket: bool) {
        if hold.is_shared() || !has_ticket {
            // If the thread also held the lock exclusively and that grant is lost now, there is no
            // entry.
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

    /// Passes the ticket of a claim on after a grant that does not keep it.
    fn free_ticket_after_reply(&mut self, claim: &Claim) {
        self.on_reply(claim);
        self.free_ticket(&claim.lock, claim.holder);
    }

    /// Passes on the ticket of this thread if it has no hold. The next thread inherits the time
    /// since which there has been no reply.
    fn free_ticket(&mut self, lock: &LockId, holder: HolderId) {
        let mut inherited = None;
        if let Some(entry) = self.entries.get_mut(lock)
            && entry.is_requested_by(holder)
        {
            inherited = entry.ticket.unanswered_since().and_then(|since| *since);
            entry.ticket = Ticket::Free;
        }
        self.pass_on(lock, inherited);
    }
}
