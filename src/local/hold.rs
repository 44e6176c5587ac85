//! The hold of one thread on one lock: its levels, its lease by the local clock, and its end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::lease_state::LeaseState;
use super::levels::{LevelId, Levels};
use super::loss_notifier::LossNotifier;
use super::owner_ids::{OwnerIds, Written};
use super::queue::LocalQueue;
use super::quorum::Quorum;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::owner::{Liveness, OwnerId, ThreadId};
use crate::base::process::Process;
use crate::error::{Error, LostReason, Result};
use crate::lease::Terms;
use crate::observe::Observer;
use crate::watchdog::{HoldId, Schedule};

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A thread's hold on a lock, from its first acquire to the release of its last level.
#[derive(Debug)]
pub(crate) struct Hold {
    id: HoldId,
    key: LockKey,
    token: Option<u64>,
    thread: ThreadId,
    liveness: Liveness,
    process: Process,
    since: Moment,
    /// Other threads of this process wait for the lock. Set under the queue's mutex.
    has_waiters: AtomicBool,
    state: Mutex<HoldState>,
    loss_notifier: LossNotifier,
    queue: Weak<LocalQueue>,
    observer: Arc<Observer>,
}

/// The part of a hold that changes.
///
/// Invariants that its mutex protects:
///
/// * A hold ends once. Only a release that finds the lock gone turns `Released` into `Lost`.
/// * After its end, a hold gets no levels and no lease.
#[derive(Debug)]
struct HoldState {
    /// The owner ids under which the lock may be held in Redis.
    owner_ids: OwnerIds,
    lease: LeaseState,
    /// The number of renewals without a reply. Redis may still execute any of them.
    pending_renewals: u32,
    end: Option<HoldEnd>,
    /// The guards of several holds that want to know of the loss of this one.
    observers: Vec<Weak<Quorum>>,
    /// The majority that this hold belongs to. They end together.
    majority: Option<Arc<Quorum>>,
    /// It ended because too few parts of its majority were left. Redis may still have the lock.
    ended_with_majority: bool,
    /// The release leaves the lock in Redis for this many milliseconds, under this owner id.
    kept_in_redis: Option<(u64, OwnerId)>,
}

impl HoldState {
    fn schedule(&self) -> Schedule {
        let schedule = self.lease.schedule();
        let count_due = self.owner_ids.due().unwrap_or(Moment::NEVER);
        Schedule {
            due: schedule.due.min(count_due),
            ..schedule
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoldEnd {
    Lost(LostReason),
    /// The thread has unlocked the last level. The release in Redis may still be under way.
    Released,
}

/// A lock that Redis granted.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) owner: OwnerId,
    /// A moment before the request was sent. The lease counts from here.
    pub(crate) asked: Moment,
    pub(crate) terms: Terms,
    /// The fencing token, if the lock is a fenced one.
    pub(crate) token: Option<u64>,
}

/// The result of removing a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Popped {
    /// There is no such level.
    Nothing,
    /// This many levels are left.
    Inner(u32),
    Last,
    /// The hold was lost before.
    Lost {
        reason: LostReason,
        /// No level is left.
        last: bool,
    },
}

impl Hold {
    pub(crate) const FIRST_LEVEL: LevelId = Levels::FIRST;

    /// A hold of the calling thread.
    pub(crate) fn new(
        key: LockKey,
        grant: Grant,
        queue: &Arc<LocalQueue>,
        observer: Arc<Observer>,
    ) -> Self {
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            key,
            token: grant.token,
            thread: ThreadId::current(),
            liveness: Liveness::of_this_thread(),
            process: Process::current(),
            since: grant.asked,
            has_waiters: AtomicBool::new(false),
            state: Mutex::new(HoldState {
                owner_ids: OwnerIds::new(grant.owner),
                lease: LeaseState::new(grant.terms, grant.asked),
                pending_renewals: 0,
                end: None,
                observers: Vec::new(),
                majority: None,
                ended_with_majority: false,
                kept_in_redis: None,
            }),
            loss_notifier: LossNotifier::default(),
            queue: Arc::downgrade(queue),
            observer,
        }
    }

    pub(crate) fn id(&self) -> HoldId {
        self.id
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.key
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.state.lock().owner_ids.owner().clone()
    }

    /// Begins a renewal, by any thread. Returns the owner id to renew. Until
    /// [`end_renewal`](Self::end_renewal), Redis may still execute the request after the hold has
    /// ended.
    pub(crate) fn begin_renewal(&self) -> Result<OwnerId> {
        self.check()?;
        let mut state = self.state.lock();
        if let Some(end) = state.end {
            return Err(self.error(end));
        }
        state.pending_renewals += 1;
        Ok(state.owner_ids.owner().clone())
    }

    /// Ends a renewal of which every copy got a reply.
    pub(crate) fn end_renewal(&self) {
        let mut state = self.state.lock();
        state.pending_renewals = state.pending_renewals.saturating_sub(1);
    }

    /// True if Redis may still execute a renewal after the hold has ended. It would prolong the
    /// next hold that has the same owner id.
    pub(crate) fn may_be_renewed_late(&self) -> bool {
        self.state.lock().pending_renewals > 0
    }

    /// Begins to write the count to Redis. Returns the owner id to write.
    pub(crate) fn begin_count(&self) -> OwnerId {
        self.state.lock().owner_ids.begin()
    }

    /// The owner id to write in another copy of the request that was begun for `begun`.
    pub(crate) fn retry_count(&self, begun: &OwnerId) -> OwnerId {
        self.state.lock().owner_ids.retry(begun)
    }

    /// Ends what [`begin_count`](Self::begin_count) began.
    pub(crate) fn end_count(&self, written: Written) {
        self.state.lock().owner_ids.end(written);
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.token
    }

    pub(crate) fn held_for(&self) -> Duration {
        Moment::now().since(self.since)
    }

    pub(crate) fn thread(&self) -> ThreadId {
        self.thread
    }

    pub(crate) fn thread_has_ended(&self) -> bool {
        self.liveness.has_ended()
    }

    /// Sets whether other threads of this process wait for the lock. Returns true if the first one
    /// has just begun to wait.
    pub(in crate::local) fn set_waiters(&self, has_waiters: bool) -> bool {
        !self.has_waiters.swap(has_waiters, Ordering::Relaxed) && has_waiters
    }

    pub(in crate::local) fn has_waiters(&self) -> bool {
        self.has_waiters.load(Ordering::Relaxed)
    }

    /// True if threads of this process wait for the lock, or for another part of the same majority.
    /// The watchdog then confirms the hold more often.
    pub(crate) fn is_awaited(&self) -> bool {
        if self.has_waiters() {
            return true;
        }
        let majority = self.state.lock().majority.clone();
        majority.is_some_and(|majority| majority.is_awaited())
    }

    /// When the hold ends unless it is renewed, by the local clock.
    pub(crate) fn expires(&self) -> Moment {
        self.state.lock().lease.expires()
    }

    /// Until when Redis may keep the lock for this hold, even if the hold has ended.
    pub(crate) fn lease_ends(&self) -> Moment {
        self.state.lock().lease.lease_ends()
    }

    /// Fails unless the lock is held. A hold whose lease has run out by the local clock ends here
    /// as lost: no late reply brings it back.
    pub(crate) fn check(&self) -> Result<()> {
        match self.left() {
            Err(Error::Lost { reason, .. }) if reason == LostReason::Expired => {
                self.lose(reason);
                self.left().map(drop)
            }
            left => left.map(drop),
        }
    }

    /// What is left of the lease by the local clock, or the error of a lock that is not held. An
    /// expired lease is an error, but does not end the hold.
    pub(crate) fn left(&self) -> Result<Duration> {
        if !self.process.is_current() {
            return Err(self.not_held());
        }
        let state = self.state.lock();
        match (state.end, state.lease.expires()) {
            (Some(end), _) => Err(self.error(end)),
            (None, expires) if expires.is_past() => Err(self.lost_error(LostReason::Expired)),
            (None, expires) => Ok(expires.left()),
        }
    }

    fn error(&self, end: HoldEnd) -> Error {
        let lock = self.key.name().into();
        match end {
            HoldEnd::Lost(reason) => Error::Lost { lock, reason },
            HoldEnd::Released => Error::NotHeld { lock },
        }
    }

    pub(crate) fn not_held(&self) -> Error {
        self.error(HoldEnd::Released)
    }

    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        self.error(HoldEnd::Lost(reason))
    }

    /// The number of levels; 0 if the lock is not held. Ends a hold whose lease has run out.
    pub(crate) fn count(&self) -> u32 {
        let _ = self.check();
        self.count_unchanged()
    }

    /// The number of levels; 0 if the lock is not held. Does not end a hold whose lease has run
    /// out.
    pub(crate) fn count_unchanged(&self) -> u32 {
        self.left().map_or(0, |_| self.levels())
    }

    /// Adds a level after Redis granted a request that was sent after `asked`.
    pub(crate) fn push(&self, terms: Terms, asked: Moment) -> Result<LevelId> {
        self.extended(asked, terms.millis)?;
        self.push_unanswered(terms)
    }

    /// Adds a level although there was no reply to the request. The lease stays what it was.
    pub(crate) fn push_unanswered(&self, terms: Terms) -> Result<LevelId> {
        let mut state = self.state.lock();
        match state.end {
            None => Ok(state.lease.push(terms)),
            Some(end) => Err(self.error(end)),
        }
    }

    /// The number of levels that are not unlocked yet, also after a loss.
    pub(crate) fn levels(&self) -> u32 {
        self.state.lock().lease.count()
    }

    /// The number of levels without a guard that are not unlocked yet, also after a loss.
    pub(crate) fn unguarded(&self) -> usize {
        self.state.lock().lease.unguarded()
    }

    /// Marks a level as one that only its guard removes.
    pub(crate) fn guard(&self, level: LevelId) {
        self.state.lock().lease.guard(level);
    }

    /// Removes `level`, or the newest level without a guard.
    pub(crate) fn pop(&self, level: Option<LevelId>) -> Popped {
        let mut state = self.state.lock();
        let Some(left) = state.lease.pop(level) else {
            return Popped::Nothing;
        };
        match state.end {
            Some(HoldEnd::Lost(reason)) => Popped::Lost {
                reason,
                last: left == 0,
            },
            _ if left == 0 => {
                state.end = Some(HoldEnd::Released);
                Popped::Last
            }
            _ => Popped::Inner(left),
        }
    }

    /// Records that Redis prolonged the lease to `millis` by a request that was sent after `asked`.
    /// With 0, Redis only confirmed that the lock is held.
    pub(crate) fn extended(&self, asked: Moment, millis: u64) -> Result<()> {
        self.check()?;
        self.state.lock().lease.granted(asked, millis);
        Ok(())
    }

    /// Makes the release leave the lock in Redis for `millis`, under another owner id.
    pub(crate) fn keep_in_redis(&self, millis: u64) {
        let mut state = self.state.lock();
        let (name, _) = state.owner_ids.owner().with_fresh_name().split();
        state.kept_in_redis = Some((millis, name));
    }

    /// How long the release leaves the lock in Redis, in milliseconds, and under which owner id;
    /// `None` if the release frees the lock.
    pub(crate) fn kept_in_redis(&self) -> Option<(u64, OwnerId)> {
        self.state.lock().kept_in_redis.clone()
    }

    /// The locked state. Its lease knows whether threads wait for the lock.
    fn state_with_waiters(&self) -> MutexGuard<'_, HoldState> {
        let is_awaited = self.is_awaited();
        let mut state = self.state.lock();
        state.lease.set_awaited(is_awaited);
        state
    }

    /// When the watchdog next handles this hold.
    pub(crate) fn schedule(&self) -> Schedule {
        self.state_with_waiters().schedule()
    }
}

mod loss;
mod renewal;

#[cfg(test)]
pub(super) mod tests;
