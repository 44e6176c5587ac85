//! What the watchdog does for a grant, and how the grant handles the replies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Grant, GrantState, Hold, KeptInRedis, Usage};
use crate::base::{List, LockKey, Moment};
use crate::error::LostReason;
use crate::local::lease_state::Action;
use crate::observe::{LockEvent, tell};
use crate::protocol::Verdict;
use crate::script::Call;
use crate::watchdog::{AtShutdown, Renew, Renewal, Schedule, Step};

/// A hold count that has differed for this long from what Redis has is written to Redis. It counts
/// from when the watchdog sees the difference, so that all of it takes less than a second.
const WRITE_COUNT_AFTER: Duration = Duration::from_millis(150);

/// No hold has this count.
const UNKNOWN_COUNT: u32 = 0;

/// The pause after a failed release of an idle grant.
const RETRY_IDLE: Duration = Duration::from_millis(10);

impl GrantState {
    pub(super) fn schedule_without_count(&self) -> Schedule {
        let schedules = self.live().map(|hold| hold.state.lock().schedule());
        if let Some(schedule) = schedules.reduce(Schedule::earlier) {
            return schedule;
        }
        let ends = self.lease.expires;
        Schedule {
            due: match self.usage {
                Usage::Idle(until) => until.min(ends),
                // Soon it is held or idle again, or forgotten.
                _ => ends,
            },
            unconfirmed: Moment::NEVER,
            ends,
            lease: None,
            retry: RETRY_IDLE,
        }
    }

    /// The holds that end at `now`.
    fn ended(&self, now: Moment) -> List<(Arc<Hold>, LostReason)> {
        let ended = self.live().filter_map(|hold| {
            let state = hold.state.lock();
            let action = state.action_at(now);
            let reason = match state.expires() <= now {
                true => LostReason::Expired,
                false if action == Action::LimitReached => LostReason::RenewalLimit,
                false => return None,
            };
            drop(state);
            Some((hold, reason))
        });
        ended.collect()
    }

    /// Since when a hold relies on the lock without a reply of Redis. A hold that began without a
    /// request counts from when the watchdog sees it, so that a short one costs no confirmation.
    fn unconfirmed_since(&mut self) -> Moment {
        let Some(hold) = self.live().next() else {
            return Moment::NEVER;
        };
        let seen = *self.seen.get_or_insert_with(Moment::now);
        hold.lease().confirmed.max(seen)
    }

    /// When the count is written although nothing else is due. Only a hold has a count.
    fn write_count_at(&self) -> Moment {
        match self.count_changed {
            Some(since) if self.is_held() && self.has_new_count() => since.after(WRITE_COUNT_AFTER),
            _ => Moment::NEVER,
        }
    }

    /// What has to be sent to Redis for the holds: the new lease in milliseconds, and the count.
    fn to_renew(&self, now: Moment) -> Option<(u64, u32)> {
        let actions = self.live().map(|hold| hold.state.lock().action_at(now));
        let renewals = actions.filter_map(|action| match action {
            Action::Renew(millis) => Some(millis),
            Action::Wait | Action::LimitReached => None,
        });
        let count = (self.write_count_at() <= now).then_some(0);
        let millis = renewals.max().or(count)?;
        Some((millis, self.count().max(1)))
    }
}

impl Grant {
    /// Makes the leases of the holds fixed whose threads have ended: no thread can unlock them any
    /// more, so renewals would keep the lock as long as the client lives. They are not unlocked,
    /// because what such a thread began may go on elsewhere. Logs each of them once.
    fn abandon_if_thread_ended(&self) {
        // A permit belongs to no thread.
        if !self.kind.has_ticket {
            return;
        }
        let is_new =
            |hold: &Arc<Hold>| hold.liveness.has_ended() && hold.state.lock().levels.abandon();
        let abandoned: List<_> = self.state.lock().live().filter(is_new).collect();
        for hold in abandoned {
            let lock = hold.key.shared_name();
            tell(move || {
                tracing::warn!(
                    lock = &*lock,
                    "a thread ended without unlocking this lock: it is not renewed, and ends with \
                     its lease; use a guard (`acquire`), or call `unlock` on every path"
                );
            });
        }
    }

    /// The renewal for `millis` milliseconds that a thread asks for; with 0, Redis only confirms
    /// that it has the grant. With `hold`, it is for this hold alone. It leaves the count in Redis
    /// as it is: only the watchdog writes counts, one after the other, so no count overwrites a
    /// later one.
    pub(crate) fn renewal(&self, millis: u64, hold: Option<u64>) -> Renewal {
        let call = self.kind.renew(&self.key, self.owner(), millis, None);
        Renewal {
            millis,
            hold,
            ..Renewal::confirming(call)
        }
    }

    pub(crate) fn release_call(&self) -> Call {
        self.kind.release(&self.key, self.owner())
    }

    /// The call that follows the last level: releases the lock, gives it away, or leaves it in
    /// Redis for the time that a level asked for.
    pub(crate) fn end_call(&self) -> Call {
        let (key, kind) = (&self.key, self.kind);
        match self.kept_in_redis() {
            Some(KeptInRedis::ForToken(owner, terms)) => kind.adopt(key, &owner, terms.millis),
            Some(KeptInRedis::For(millis, name)) => kind.leave(key, self.owner(), millis, &name),
            None => self.release_call(),
        }
    }
}

impl Renew for Grant {
    fn schedule(&self) -> Schedule {
        self.is_noted.store(false, Ordering::Relaxed);
        let mut state = self.state.lock();
        let changed = state.count_changed;
        let is_new = state.has_new_count();
        state.count_changed = is_new.then(|| changed.unwrap_or_else(Moment::now));
        let schedule = state.schedule_without_count();
        let due = schedule.due.min(state.write_count_at());
        state.watched_until = due;
        let unconfirmed = state.unconfirmed_since();
        Schedule {
            due,
            unconfirmed,
            ..schedule
        }
    }

    fn confirmation(&self, latest: Moment) -> Option<Renewal> {
        self.abandon_if_thread_ended();
        let is_wanted = self.state.lock().unconfirmed_since() <= latest;
        // Without the count it only reads.
        is_wanted.then(|| self.renewal(0, None))
    }

    fn next_step(&self, now: Moment) -> Step {
        self.abandon_if_thread_ended();
        let ended = self.state.lock().ended(now);
        for (hold, reason) in ended {
            hold.lose(reason);
        }
        let state = self.state.lock();
        match state.usage {
            Usage::Held(_) if state.live().next().is_some() => {}
            Usage::Free if now < state.expires() => return Step::Wait,
            Usage::Idle(until) if now < until.min(state.expires()) => return Step::Wait,
            Usage::Idle(_) => {
                drop(state);
                return self.end_idle_grant().map_or(Step::Wait, Step::Release);
            }
            // A hold that was dropped without a release ends with its lease.
            Usage::Held(_) | Usage::Free | Usage::Ended => return Step::Forget,
        }
        let (to_renew, newest) = (state.to_renew(now), state.holds);
        drop(state);
        to_renew.map_or(Step::Wait, |(millis, count)| {
            let call = self
                .kind
                .renew(&self.key, self.owner(), millis, Some(count));
            Step::Renew(Renewal {
                millis,
                count: Some(count),
                limited: Some(newest),
                ..Renewal::confirming(call)
            })
        })
    }

    fn end_idle_grant(&self) -> Option<Call> {
        let queue = self.queue.upgrade()?;
        queue.end_idle(self).then(|| self.release_call())
    }

    fn released(&self, verdict: Verdict) {
        if let Some(queue) = self.queue.upgrade() {
            queue.released(self, verdict);
        }
    }

    fn shut_down(self: Arc<Self>) -> Option<AtShutdown> {
        let lost = self.queue.upgrade()?.shut_down(&self)?;
        Some(AtShutdown {
            release: self.end_call(),
            notify: Box::new(move || {
                self.notify_holders(&lost);
                Box::new(move || self.report(lost))
            }),
        })
    }

    fn permits(&self) -> usize {
        self.owner().permits()
    }

    fn key(&self) -> &LockKey {
        self.key()
    }

    fn confirm_now(&self) {
        let now = Moment::now();
        for hold in self.state.lock().live() {
            hold.state.lock().lease.wanted = now;
        }
    }

    fn lease_ends(&self) -> Moment {
        self.lease_ends()
    }

    fn renewed(&self, asked: Moment, done: &Renewal) {
        // A hold whose lease has run out meanwhile is lost: no late reply brings it back.
        if self.expires().is_past() {
            self.lose(LostReason::Expired);
            return;
        }
        let holds: List<Arc<Hold>> = self.state.lock().live().collect();
        let expired = holds.iter().filter(|hold| hold.expires().is_past());
        expired.for_each(|hold| hold.lose(LostReason::Expired));
        let mut state = self.state.lock();
        let lease = Duration::from_millis(done.millis);
        match state.usage {
            Usage::Ended => return,
            Usage::Held(_) => {}
            Usage::Free | Usage::Idle(_) => state.lease.granted(asked, lease),
        }
        state.lease_ends = state.lease_ends.max(asked.after(lease));
        for hold in state.live() {
            let state = &mut *hold.state.lock();
            let number = state.number;
            let is_limited = done.limited.is_some_and(|newest| number <= newest);
            // A fixed lease ends at its own time, even if the grant was prolonged for another hold,
            // or for a level that is unlocked meanwhile.
            let is_for_others = match done.hold {
                Some(hold) => hold != number,
                None => state.levels.are_fixed(),
            };
            let millis = if is_for_others { 0 } else { done.millis };
            if is_limited {
                state.levels.renewed(millis);
            }
            state.lease.granted(asked, Duration::from_millis(millis));
        }
        if let Some(count) = done.count {
            (state.written, state.count_changed) = (count, None);
        }
    }

    fn not_renewed(&self, asked: &Renewal, cause: &str) {
        let mut state = self.state.lock();
        // It is unknown which count Redis has, if the request would have changed it.
        if asked.count.is_some_and(|count| count != state.written) {
            (state.written, state.count_changed) = (UNKNOWN_COUNT, None);
        }
        drop(state);
        self.observer.emit(&LockEvent::RenewalFailed {
            lock: self.key.shared_name(),
            cause: cause.into(),
            lease_left: self.expires().left(),
        });
    }

    fn lost(&self, reason: LostReason) {
        self.lose(reason);
    }
}
