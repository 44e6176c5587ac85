//! The hold of one thread on a grant: its token, its end, and the notification of its loss.
//!
//! | file | duty |
//! |---|---|
//! | `loss` | ends the hold as lost, and notifies |
//! | `span` | its span for the log subscriber |
//! | `suspension` | a wait on a condition: the hold continues on another grant |

mod loss;
mod span;
mod suspension;

mod begin;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::LockId;
use super::grant::{Grant, Holder};
use super::lease_state::LeaseState;
use super::levels::{LevelId, Levels};
use super::loss_notifier::LossNotifier;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::owner::{Liveness, ThreadId};
use crate::error::{Error, LostReason, Result};
use crate::lease::Terms;
use crate::observe::HoldSpan;
use suspension::Suspended;

/// A thread's hold on a lock, from its first acquire to the release of its last level.
#[derive(Debug)]
pub(crate) struct Hold {
    key: LockKey,
    lock: LockId,
    thread: ThreadId,
    liveness: Liveness,
    /// The thread has taken the hold. False while a hold that was handed over is on its way to its
    /// thread. Set under the queue's mutex.
    is_taken: AtomicBool,
    state: Mutex<HoldState>,
    loss_notifier: LossNotifier,
}

/// The part of a hold that changes. Its mutex protects: a hold ends once. Only a release that finds
/// the lock gone turns `Released` into `Lost`.
///
/// | event | `end` before | after |
/// |---|---|---|
/// | `push`, `pop` of another level than the last | none | none |
/// | `pop` of the last level | none | `Released` |
/// | `suspend`: the thread begins to wait on a condition | none | `Suspended` |
/// | `resume`: the thread has the lock again | `Suspended` | none |
/// | `abandon`: it could not acquire the lock again | `Suspended` | `Released`, `Lost` |
/// | `end_as_lost`: the grant lost this hold | none | `Lost` |
/// | `lose_on_release`: the lock was gone | `Released`, `Suspended` | `Lost` |
#[derive(Debug)]
struct HoldState {
    place: GrantPlace,
    end: Option<HoldEnd>,
    /// They are notified of the loss.
    observers: Vec<Weak<dyn ObserveLoss>>,
    /// The majority that this hold belongs to. They end together.
    majority: Option<Arc<dyn ObserveLoss>>,
    /// It ended because too few parts of its majority were left. Redis may still have the lock.
    ended_with_majority: bool,
    /// It is taken out before it is dropped, because that calls code of the application.
    span: Option<Box<HoldSpan>>,
}

/// Which grant a hold uses, and since when. It changes only while the hold is suspended.
#[derive(Clone, Debug)]
struct GrantPlace {
    grant: Arc<Grant>,
    /// The number of the hold on this grant.
    number: u64,
    token: Option<u64>,
    since: Moment,
}

impl GrantPlace {
    /// Applies `change` to the lease state of the hold, also after a loss. `None` if the hold has
    /// left a shared grant.
    fn with_lease<R>(&self, change: impl FnOnce(&mut LeaseState) -> R) -> Option<R> {
        self.grant.with_lease(self.number, change)
    }
}

/// Is notified of the loss of a hold, once.
pub(super) trait ObserveLoss: Send + Sync + std::fmt::Debug {
    fn lost(&self, reason: LostReason);
}

#[derive(Debug)]
enum HoldEnd {
    Lost(LostReason),
    /// The thread has unlocked the last level. The release in Redis may still be under way.
    Released,
    /// The thread waits on a condition. It has unlocked all levels, and gets them again.
    Suspended(Box<Suspended>),
}

/// Which levels a thread unlocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlocks {
    Level(LevelId),
    /// The newest level without a guard.
    Newest,
    /// All, until the hold continues.
    Suspends,
}

/// The result of removing a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Popped {
    /// There is no such level.
    Nothing,
    /// Levels are left.
    Inner,
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

    fn new(
        grant: &Arc<Grant>,
        number: u64,
        token: Option<u64>,
        (thread, liveness): (ThreadId, Liveness),
        since: Moment,
    ) -> Self {
        let place = GrantPlace {
            grant: Arc::clone(grant),
            number,
            token,
            since,
        };
        Self {
            key: grant.key().clone(),
            lock: grant.lock().clone(),
            thread,
            liveness,
            is_taken: AtomicBool::new(false),
            state: Mutex::new(HoldState {
                place,
                end: None,
                observers: Vec::new(),
                majority: None,
                ended_with_majority: false,
                span: None,
            }),
            loss_notifier: LossNotifier::default(),
        }
    }

    /// Its number among the holds on its grant.
    pub(crate) fn number(&self) -> u64 {
        self.state.lock().place.number
    }

    /// The grant that the hold uses, or used last.
    pub(crate) fn grant(&self) -> Arc<Grant> {
        Arc::clone(&self.state.lock().place.grant)
    }

    pub(crate) fn lock(&self) -> &LockId {
        &self.lock
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.key
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.state.lock().place.token
    }

    pub(crate) fn thread(&self) -> ThreadId {
        self.thread
    }

    /// True if it does not exclude the other shared holds on the lock.
    pub(crate) fn is_shared(&self) -> bool {
        self.grant().kind().is_shared
    }

    pub(super) fn take(&self) {
        self.is_taken.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Relaxed)
    }

    pub(super) fn thread_has_ended(&self) -> bool {
        self.liveness.has_ended()
    }

    /// How long the thread has had the hold.
    pub(crate) fn held_for(&self) -> Duration {
        Moment::now().since(self.state.lock().place.since)
    }

    /// Fails unless the lock is held. A hold whose lease has run out by the local clock ends here
    /// as lost: no late reply brings it back.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_at(Moment::now())
    }

    /// Fails unless the lock is held at `now`.
    pub(super) fn check_at(&self, now: Moment) -> Result<()> {
        match self.left_at(now) {
            Err(Error::Lost { reason, .. }) if reason == LostReason::Expired => {
                self.lose(reason);
                self.left_at(now).map(drop)
            }
            left => left.map(drop),
        }
    }

    /// What is left of the lease by the local clock, or the error of a lock that is not held. An
    /// expired lease is an error, but does not end the hold.
    pub(crate) fn left(&self) -> Result<Duration> {
        self.left_at(Moment::now())
    }

    fn left_at(&self, now: Moment) -> Result<Duration> {
        let place = {
            let state = self.state.lock();
            match &state.end {
                Some(end) => return Err(self.error(end)),
                None => state.place.clone(),
            }
        };
        let expires = place.with_lease(|lease| lease.expires());
        let left = expires.map_or(Duration::ZERO, |expires| expires.since(now));
        if left.is_zero() {
            return Err(self.lost_error(LostReason::Expired));
        }
        Ok(left)
    }

    fn error(&self, end: &HoldEnd) -> Error {
        match end {
            HoldEnd::Lost(reason) => self.lost_error(*reason),
            HoldEnd::Released | HoldEnd::Suspended(_) => self.not_held(),
        }
    }

    pub(crate) fn not_held(&self) -> Error {
        Error::NotHeld {
            lock: self.key.name().into(),
            by_guard: false,
        }
    }

    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        Error::Lost {
            lock: self.key.name().into(),
            reason,
        }
    }

    /// The error of a lost hold. It has the reason of the loss, which may differ from `reason`.
    pub(crate) fn loss_error(&self, reason: LostReason) -> Error {
        match self.check() {
            Err(error) => error,
            Ok(()) => self.lost_error(reason),
        }
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

    /// The number of levels that are not unlocked, also after a loss.
    pub(super) fn levels(&self) -> u32 {
        let levels = self.place().with_lease(|lease| lease.levels.count());
        levels.unwrap_or(0)
    }

    /// The number of levels without a guard that are not unlocked yet, also after a loss.
    pub(crate) fn unguarded(&self) -> usize {
        let levels = |place: GrantPlace| place.with_lease(|lease| lease.levels.unguarded());
        self.unless_unlocked().and_then(levels).unwrap_or(0)
    }

    /// The grant, also after a loss; `None` if the thread has unlocked the last level.
    fn unless_unlocked(&self) -> Option<GrantPlace> {
        let state = self.state.lock();
        let is_unlocked = matches!(state.end, Some(HoldEnd::Released | HoldEnd::Suspended(_)));
        (!is_unlocked).then(|| state.place.clone())
    }

    /// Marks a level as one that only its guard removes.
    pub(crate) fn guard(&self, level: LevelId) {
        self.place().with_lease(|lease| lease.levels.guard(level));
    }

    /// True if a further level with these terms needs no request to Redis.
    pub(crate) fn covers(&self, terms: Terms) -> bool {
        let place = self.place();
        let covers = place.with_lease(|lease| lease.covers(terms, Moment::now));
        covers.unwrap_or(false)
    }

    /// When it ends in this process unless it is renewed.
    pub(crate) fn expires(&self) -> Moment {
        let expires = self.place().with_lease(|lease| lease.expires());
        expires.unwrap_or(Moment::ZERO)
    }

    /// For how long its lease has been over by the local clock. `None` if it is not, or if the hold
    /// has left a shared grant, which does not know its lease any more.
    pub(crate) fn late_by(&self) -> Option<Duration> {
        let (expires, now) = (self.expires(), Moment::now());
        (expires > Moment::ZERO && now >= expires).then(|| now.since(expires))
    }

    /// Adds a level, unless the hold has ended. The caller has checked it.
    pub(crate) fn push(&self, terms: Terms) -> Result<LevelId> {
        let GrantPlace { grant, number, .. } = self.place();
        let level = grant.push(number, terms);
        level.ok_or_else(|| match &self.state.lock().end {
            Some(end) => self.error(end),
            None => self.not_held(),
        })
    }

    /// Makes the release leave the lock in Redis for `millis`, unless the hold has ended.
    pub(crate) fn keep_in_redis(&self, millis: u64) {
        let GrantPlace { grant, number, .. } = self.place();
        grant.keep_in_redis(number, millis);
    }

    fn place(&self) -> GrantPlace {
        self.state.lock().place.clone()
    }

    /// Removes these levels.
    pub(super) fn pop(&self, unlocks: Unlocks) -> Popped {
        let Some(GrantPlace { grant, number, .. }) = self.unless_unlocked() else {
            return Popped::Nothing;
        };
        let level = match unlocks {
            Unlocks::Level(level) => Some(level),
            Unlocks::Newest => None,
            Unlocks::Suspends => return self.suspend(),
        };
        let Some(left) = grant.pop(number, level) else {
            return Popped::Nothing;
        };
        // A loss after the first look counts: it has ended the hold.
        let mut state = self.state.lock();
        match state.end {
            Some(HoldEnd::Lost(reason)) => Popped::Lost {
                reason,
                last: left == 0,
            },
            _ if left == 0 => {
                state.end = Some(HoldEnd::Released);
                Popped::Last
            }
            _ => Popped::Inner,
        }
    }
}

#[cfg(test)]
mod tests;
