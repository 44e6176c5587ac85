//! The hold of one thread on a grant: its levels, its lease, and its span.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::{Grant, Hold, HoldEnd, HoldState, KeptInRedis, Unlocked, Unlocks};
use crate::base::{LockKey, Moment};
use crate::error::{Error, LostReason, Result};
use crate::lease::Terms;
use crate::local::lease_state::{Action, LeaseState};
use crate::local::levels::{LevelId, Levels};
use crate::observe::{Counters, HoldSpan};
use crate::watchdog::Schedule;

impl Hold {
    pub(crate) const FIRST_LEVEL: LevelId = Levels::FIRST;

    /// Its number among the holds on its grant.
    pub(crate) fn number(&self) -> u64 {
        self.state.lock().number
    }

    /// The grant that the hold uses, or used last.
    pub(crate) fn grant(&self) -> Arc<Grant> {
        Arc::clone(&self.state.lock().grant)
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.key
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.state.lock().token.map(NonZeroU64::get)
    }

    /// True if it does not exclude the other shared holds on the lock.
    pub(crate) fn is_shared(&self) -> bool {
        self.state.lock().grant.kind.is_shared
    }

    pub(in crate::local) fn take(&self) {
        self.is_taken.store(true, Ordering::Relaxed);
    }

    pub(in crate::local) fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Relaxed)
    }

    /// Counts the begin of the hold. May call the application's metrics recorder.
    pub(crate) fn count_begin(&self, counters: &Counters, waited: impl FnOnce() -> Duration) {
        counters.add_hold(&self.count, &self.key, waited);
    }

    /// Counts the end of the hold, once. May call the application's metrics recorder.
    pub(crate) fn count_end(&self, counters: &Counters) {
        counters.end_hold(&self.count, &self.key, || self.held_for());
    }

    /// Fails unless the lock is held. A hold whose lease has run out by the local clock ends here
    /// as lost: no late reply brings it back.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_at(Moment::now())
    }

    /// Fails unless the lock is held at `now`.
    pub(in crate::local) fn check_at(&self, now: Moment) -> Result<()> {
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
        let state = self.unless_ended()?;
        let left = state.expires().since(now);
        match left.is_zero() {
            true => Err(self.lost_error(LostReason::Expired)),
            false => Ok(left),
        }
    }

    /// The state of the hold, or the error if it has ended.
    pub(super) fn unless_ended(&self) -> Result<MutexGuard<'_, HoldState>> {
        let state = self.state.lock();
        match state.end {
            None => Ok(state),
            Some(HoldEnd::Lost(reason)) => Err(self.lost_error(reason)),
            Some(HoldEnd::Released | HoldEnd::Suspended { .. }) => Err(self.not_held()),
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
        self.check()
            .err()
            .unwrap_or_else(|| self.lost_error(reason))
    }

    /// The number of levels; 0 if the lock is not held. Ends a hold whose lease has run out.
    pub(crate) fn count(&self) -> u32 {
        self.check().map_or(0, |()| self.levels())
    }

    /// The number of levels; 0 if the lock is not held. Does not end a hold whose lease has run
    /// out.
    pub(crate) fn count_unchanged(&self) -> u32 {
        self.left().map_or(0, |_| self.levels())
    }

    /// The number of levels that are not unlocked, also after a loss.
    pub(in crate::local) fn levels(&self) -> u32 {
        self.state.lock().levels.count()
    }

    /// The number of levels without a guard that are not unlocked yet, also after a loss.
    pub(crate) fn unguarded(&self) -> usize {
        let state = self.state.lock();
        match state.is_unlocked() {
            true => 0,
            false => state.levels.unguarded(),
        }
    }

    /// Marks a level as one that only its guard removes.
    pub(crate) fn guard(&self, level: LevelId) {
        self.state.lock().levels.guard(level);
    }

    /// True if a further level with these terms needs no request to Redis.
    pub(crate) fn covers(&self, terms: Terms) -> bool {
        let state = self.state.lock();
        state.lease.covers(&state.levels, terms, Moment::now)
    }

    pub(super) fn lease(&self) -> LeaseState {
        self.state.lock().lease
    }

    /// For how long it has been held.
    pub(crate) fn held_for(&self) -> Duration {
        Moment::now().since(self.state.lock().since)
    }

    /// When it ends in this process unless it is renewed.
    pub(crate) fn expires(&self) -> Moment {
        self.state.lock().expires()
    }

    /// True if the watchdog has to read the schedule of the grant again, because this hold is due
    /// earlier than by the schedule that the watchdog has. Does not consider the hold count.
    pub(crate) fn is_due_earlier(&self) -> bool {
        let due = self.state.lock().schedule().due;
        due < self.grant().watched_until()
    }

    /// For how long its lease has been over by the local clock. `None` if it is not.
    pub(crate) fn late_by(&self) -> Option<Duration> {
        let (expires, now) = (self.expires(), Moment::now());
        (now >= expires).then(|| now.since(expires))
    }

    /// Adds a level, unless the hold has ended. The caller has checked it.
    pub(crate) fn push(&self, terms: Terms) -> Result<LevelId> {
        Ok(self.unless_ended()?.levels.push(terms, Moment::now()))
    }

    /// Makes the release leave the lock in Redis for `millis`, under another owner id. Of several
    /// times, also of threads that share the grant, the longest counts. Does nothing if the hold
    /// has ended.
    pub(crate) fn keep_in_redis(&self, millis: u64) {
        let grant = self.grant();
        let mut of_grant = grant.state.lock();
        if self.state.lock().end.is_none() {
            let before = match of_grant.kept_in_redis.as_deref() {
                Some(KeptInRedis::For(before, _)) => *before,
                _ => 0,
            };
            let (name, _) = grant.owner().with_fresh_name().split();
            let kept = KeptInRedis::For(millis.max(before), name);
            of_grant.kept_in_redis = Some(Box::new(kept));
        }
    }

    /// Removes these levels. The grant is free without a level of any hold.
    pub(in crate::local) fn pop(&self, unlocks: Unlocks) -> Unlocked {
        let grant = self.grant();
        let mut of_grant = grant.state.lock();
        let state = &mut *self.state.lock();
        if state.is_unlocked() {
            return Unlocked::NotHeld;
        }
        let levels = &mut state.levels;
        let newest = levels.newest();
        let left = match unlocks {
            Unlocks::Level(level) | Unlocks::GivesAway(level) => levels.pop(Some(level)),
            Unlocks::Newest => levels.pop(None),
            Unlocks::Suspends => match state.end {
                None => Some(0),
                // A lost hold keeps its levels.
                Some(_) => Some(levels.count()),
            },
        };
        let last = left == Some(0);
        match (left, state.end) {
            (None, _) => Unlocked::NotHeld,
            (Some(_), Some(HoldEnd::Lost(reason))) => Unlocked::Lost { reason, last },
            (Some(0), _) => {
                if let (Unlocks::GivesAway(_), Some(terms)) = (unlocks, newest) {
                    of_grant.keep_for_token(grant.owner(), terms);
                }
                state.end = Some(match unlocks {
                    Unlocks::Suspends => HoldEnd::Suspended {
                        kept_in_redis: match of_grant.kept_in_redis.take().as_deref() {
                            Some(KeptInRedis::For(millis, _)) => Some(*millis),
                            _ => None,
                        },
                    },
                    Unlocks::Level(_) | Unlocks::GivesAway(_) | Unlocks::Newest => {
                        HoldEnd::Released
                    }
                });
                of_grant.leave(self, state.lease);
                Unlocked::Last
            }
            (Some(_), _) => Unlocked::Inner,
        }
    }

    /// Begins the span, unless no log subscriber wants it. Calls code of the application.
    pub(crate) fn begin_span(&self, kind: &'static str, node: &str) {
        let Some(span) = HoldSpan::begin(self.key.name(), kind, node, self.token()) else {
            return;
        };
        match self.unless_ended() {
            Ok(mut state) => state.span = Some(span),
            // It was lost a moment ago.
            Err(_) => span.end("lost"),
        }
    }

    /// Ends the span, if there is one. Calls code of the application.
    pub(crate) fn end_span(&self, outcome: &'static str) {
        if let Some(span) = self.remove_span() {
            span.end(outcome);
        }
    }

    pub(super) fn remove_span(&self) -> Option<Box<HoldSpan>> {
        self.state.lock().span.take()
    }
}

impl HoldState {
    /// When the hold ends in this process unless it is renewed.
    pub(super) fn expires(&self) -> Moment {
        self.lease.expires
    }

    pub(super) fn schedule(&self) -> Schedule {
        self.lease.schedule(&self.levels)
    }

    pub(super) fn action_at(&self, now: Moment) -> Action {
        self.lease.action_at(&self.levels, now)
    }

    pub(super) fn loss_reason(&self) -> Option<LostReason> {
        match self.end {
            Some(HoldEnd::Lost(reason)) => Some(reason),
            _ => None,
        }
    }

    /// True if the thread has unlocked the last level.
    pub(super) fn is_unlocked(&self) -> bool {
        matches!(
            self.end,
            Some(HoldEnd::Released | HoldEnd::Suspended { .. })
        )
    }
}
