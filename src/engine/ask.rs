//! A request for a lock: its owner ids, its reply, and what undoes it.
//!
//! Each copy of a request has an owner id of its own: otherwise a late copy could acquire the lock
//! again after the grant was lost, with the owner id of that grant. A request whose reply is not
//! the expected one is undone, because a copy of it may have acquired the lock.

use std::time::Duration;

use super::single_lock::SingleLock;
use crate::base::{CallBudget, List, Moment, OwnerId};
use crate::error::Error;
use crate::lease::Terms;
use crate::local::{Granted, Turns};
use crate::protocol::{AcquireOptions, Refusal, acquired};
use crate::request::{LostCopies, NoReply, Prepared, Reply, Request, confirmed, request_one};
use crate::script::Call;

/// A request looks for a grant to at most this many earlier copies without a reply. A lock that an
/// even older copy acquired ends with its lease.
const MAX_OLDER_IDS: usize = 7;

/// What is left of the lease of a lock without an expiry: it can be deleted without a message.
const UNKNOWN_LEASE: Duration = Duration::from_secs(1);

/// A request for a lock, or for several locks of one client in one slot: all of them or none.
pub(crate) struct Ask<'a> {
    locks: List<&'a SingleLock>,
    terms: Terms,
    /// For how long Redis may keep the lock: for its lease, or longer if the request adopts it.
    pub(super) kept: Duration,
    /// The owner id of the newest copy.
    owner: OwnerId,
    /// After it was sent: there is no reply, and a copy may be executed later.
    pub(super) is_unanswered: bool,
    /// After it was sent: a copy may have entered the line without a reply, so the client may be
    /// called.
    pub(super) may_be_called: bool,
}

/// Why a request has brought no grant.
pub(crate) enum NotGranted {
    /// The lease of a grant to this owner was over when the reply arrived. It is being released.
    TooLate(OwnerId),
    Refused(Refusal),
    /// There is no clear reply, or no confirmation by replicas. What this owner may have is being
    /// released.
    Failed(OwnerId, Error),
}

impl<'a> Ask<'a> {
    /// A request with a new owner id.
    pub(crate) fn new(lock: &'a SingleLock, terms: Terms) -> Self {
        Self::of_owner(lock.new_owner(), lock, terms)
    }

    /// A request for `owner`.
    pub(super) fn of_owner(owner: OwnerId, lock: &'a SingleLock, terms: Terms) -> Self {
        Self::of(owner, List::from_buf([lock]), terms)
    }

    /// A request for several locks, of which there is one at least.
    pub(crate) fn for_all(locks: List<&'a SingleLock>, terms: Terms) -> Self {
        Self::of(locks[0].new_owner(), locks, terms)
    }

    fn of(owner: OwnerId, locks: List<&'a SingleLock>, terms: Terms) -> Self {
        Self {
            locks,
            terms,
            kept: terms.length(),
            owner,
            is_unanswered: false,
            may_be_called: false,
        }
    }

    pub(crate) fn call(&self, options: &AcquireOptions) -> Call {
        let keys: List<_> = self.locks.iter().map(|lock| &lock.key).collect();
        let kind = self.locks[0].kind;
        if options.adopts {
            let call = kind.adopt(keys[0], &self.owner, self.terms.millis);
            return call.acquiring();
        }
        kind.acquire(&keys, &self.owner, self.terms.millis, options)
    }

    /// The call of a further copy, after one without a reply.
    pub(crate) fn next_copy(&mut self, options: &AcquireOptions) -> Call {
        let kept = match options.adopts {
            true => usize::MAX,
            false => MAX_OLDER_IDS,
        };
        self.owner = self.owner.newest(kept).with_fresh_name();
        self.call(options)
    }

    pub(crate) fn request(&self, call: Call) -> Request<'a> {
        let SingleLock { core, key, .. } = self.locks[0];
        Request {
            others: self.locks[1..].iter().map(|lock| &lock.key).collect(),
            ..Request::new(&core.redis, key, call)
        }
    }

    /// Sends the request, or receives the reply to `prepared` if that was sent already. `waiting`:
    /// see [`end`](Self::end).
    pub(super) fn send(
        &mut self,
        options: &AcquireOptions,
        prepared: Option<&Prepared>,
        waiting: Option<u32>,
        budget: &CallBudget,
    ) -> Result<Granted, NotGranted> {
        let call = prepared.map(|prepared| prepared.call().clone());
        let request = Request {
            prepared,
            ..self.request(call.unwrap_or_else(|| self.call(options)))
        };
        let mut next_call = |_| Some(self.next_copy(options));
        let result = request_one(&request, &mut next_call, budget);
        let result = confirmed(result, &request, next_call, budget);
        self.is_unanswered = result.as_ref().is_err_and(may_arrive_later);
        let has_lost_copies = |reply: &Reply| reply.lost_copies.is_ambiguous();
        self.may_be_called = self.is_unanswered || result.as_ref().is_ok_and(has_lost_copies);
        self.end(result, waiting)
    }

    /// Evaluates the reply. Undoes the request unless it was granted, and the copies of it that may
    /// still be executed. `waiting` threads waited here when the lock was refused for the first
    /// time.
    pub(crate) fn end(
        &self,
        result: Result<Reply, NoReply>,
        waiting: Option<u32>,
    ) -> Result<Granted, NotGranted> {
        let reply = match result {
            Ok(reply) => reply,
            Err(NoReply { error, lost_copies }) => {
                self.undo_lost_copies(lost_copies);
                return Err(NotGranted::Failed(self.owner.clone(), *error));
            }
        };
        match acquired(&reply.reply, reply.asked) {
            Ok(Ok(tokens)) => {
                let (owner, older) = self.owner.split();
                if let Some(older) = older {
                    self.compensate(&older, &reply.lost_copies);
                }
                let turns = (self.locks[0].kind.turns)(&reply.reply, waiting);
                let granted = Granted {
                    turns: turns.map_or(Turns::InSlice, Turns::Counted),
                    owner,
                    asked: reply.asked,
                    replied: Moment::now(),
                    terms: self.terms,
                    lease_ends: reply.asked.after(self.kept),
                    tokens,
                };
                if granted.is_over(granted.replied) {
                    // It may have expired in Redis.
                    self.release_later(&granted.owner);
                    return Err(NotGranted::TooLate(granted.owner));
                }
                Ok(granted)
            }
            Ok(Err(refusal)) => {
                self.undo_lost_copies(reply.lost_copies);
                Err(NotGranted::Refused(Refusal {
                    at: refusal.at.min(self.locks.len() - 1),
                    ..refusal
                }))
            }
            Err(error) => {
                self.compensate(&self.owner, &reply.lost_copies);
                self.release_later(&self.owner);
                let SingleLock { core, key, .. } = self.locks[0];
                let error = core.redis.refusal(key, error);
                Err(NotGranted::Failed(self.owner.clone(), error))
            }
        }
    }

    /// Undoes a request that was refused or had no reply, if copies of it may be executed, so that
    /// none of them leaves a lock without a holder.
    pub(super) fn undo_lost_copies(&self, lost_copies: LostCopies) {
        if lost_copies.is_ambiguous() {
            self.compensate(&self.owner, &lost_copies);
            self.release_later(&self.owner);
        }
    }

    /// Sends a release after each of these lost copies.
    fn compensate(&self, owner: &OwnerId, lost_copies: &LostCopies) {
        if !lost_copies.is_ambiguous() {
            return;
        }
        let release = |lock: &&SingleLock| lock.kind.release(&lock.key, owner);
        let releases: Vec<Call> = self.locks.iter().map(release).collect();
        for some in releases.chunks(releases[0].most_joined()) {
            if let Some(call) = Call::joined(some.iter().cloned()) {
                lost_copies.compensate(&call);
            }
        }
    }

    /// Releases in the background what `owner` may have.
    pub(super) fn release_later(&self, owner: &OwnerId) {
        let lease_ends = Moment::now().after(self.kept);
        for SingleLock {
            core, key, kind, ..
        } in &self.locks
        {
            let call = kind.release(key, owner);
            let _ = core.watchdog.release_orphan(key.clone(), call, lease_ends);
        }
    }
}

impl Refusal {
    /// What is left of the lease.
    pub(crate) fn left(&self) -> Duration {
        self.millis.map_or(UNKNOWN_LEASE, Duration::from_millis)
    }

    /// True if the owner is a client of Redisson.
    pub(crate) fn is_foreign(&self) -> bool {
        !self.owner.is_empty() && !OwnerId::is_of_this_library(&self.owner)
    }

    /// True if the owner is the client of this lock.
    pub(crate) fn is_of_client(&self, lock: &SingleLock) -> bool {
        self.owner.starts_with(&*lock.core.owner_prefix)
    }

    /// True if the lock is reserved for clients that were called, before this one. Permits are not
    /// reserved for a time.
    pub(super) fn is_reserved(&self, lock: &SingleLock) -> bool {
        lock.kind.has_ticket && self.owner.is_empty() && self.standing.rank > Some(0)
    }

    /// True if there are no permits, available or leased.
    pub(super) fn has_no_permits(&self, lock: &SingleLock) -> bool {
        self.millis.is_none() && !lock.kind.has_ticket
    }
}

/// True if a copy of the request that is sent may be executed later.
fn may_arrive_later(none: &NoReply) -> bool {
    none.lost_copies.is_ambiguous()
        || matches!(
            *none.error,
            Error::Unavailable { .. } | Error::Interrupted { .. } | Error::ShutDown { .. }
        )
}
