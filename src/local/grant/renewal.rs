//! What the watchdog does for a grant, and how the grant handles the replies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::share::Share;
use super::{Grant, GrantState, Usage};
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::list::List;
use crate::error::LostReason;
use crate::local::lease_state::Action;
use crate::observe::LockEvent;
use crate::script::Call;
use crate::watchdog::{AtShutdown, Renew, Renewal, Schedule, Step};

/// A hold count that has differed for this long from what Redis has is written to Redis. It counts
/// from when the watchdog sees the difference, so that all of it takes less than a second.
const WRITE_COUNT_AFTER: Duration = Duration::from_millis(150);

/// The pause after a failed release of an idle grant.
const RETRY_IDLE: Duration = Duration::from_millis(10);

impl GrantState {
    pub(super) fn schedule_without_count(&self) -> Schedule {
        let schedules = self.shares.iter().map(|share| share.lease.schedule());
        let ends = self.expires();
        let due = match (self.usage, schedules.reduce(Schedule::earlier)) {
            (Usage::Held, Some(schedule)) => return schedule,
            (Usage::Idle(until), _) => until.min(ends),
            // Soon it is held or idle again, or forgotten.
            _ => ends,
        };
        Schedule {
            due,
            unconfirmed: Moment::NEVER,
            ends,
            lease: None,
            retry: RETRY_IDLE,
        }
    }

    /// What all live holds together need at `now`, and those that end now.
    fn action_at(&self, now: Moment) -> (Action, List<(u64, LostReason)>) {
        let (mut action, mut ended) = (Action::Wait, List::new());
        for Share { number, lease, .. } in &self.shares {
            if now >= lease.expires() {
                ended.push((*number, LostReason::Expired));
                continue;
            }
            match (lease.action_at(now), action) {
                (Action::LimitReached, _) => ended.push((*number, LostReason::RenewalLimit)),
                (Action::Renew(one), Action::Renew(other)) => {
                    action = Action::Renew(one.max(other));
                }
                (Action::Renew(millis), _) => action = Action::Renew(millis),
                (Action::Wait, _) => {}
            }
        }
        (action, ended)
    }

    /// Since when a hold relies on the lock without a reply of Redis. A hold that began without a
    /// request counts from when the watchdog sees it, so that a short one costs no confirmation.
    fn unconfirmed_since(&mut self) -> Moment {
        if self.usage != Usage::Held {
            return Moment::NEVER;
        }
        let seen = *self.seen.get_or_insert_with(Moment::now);
        self.shares[0].lease.confirmed().max(seen)
    }

    /// When the count is written although nothing else is due. Only a hold has a count.
    fn write_count_at(&self) -> Moment {
        match (self.usage, self.count_changed) {
            (Usage::Held, Some(since)) if self.has_new_count() => since.after(WRITE_COUNT_AFTER),
            _ => Moment::NEVER,
        }
    }
}

impl Grant {
    /// The renewal for `millis` milliseconds that a thread asks for; with 0, Redis only confirms
    /// that it has the grant. With `hold`, it is for this hold alone. It leaves the count in Redis
    /// as it is: only the watchdog writes counts, one after the other, so no count overwrites a
    /// later one.
    pub(crate) fn renewal(&self, millis: u64, hold: Option<u64>) -> Renewal {
        Renewal {
            hold,
            ..self.new_renewal(millis, None)
        }
    }

    /// A renewal of the watchdog, for all holds. It writes the count. `limited` is the newest hold
    /// whose limit of renewals it counts against.
    fn renewal_with_count(&self, millis: u64, limited: Option<u64>) -> Renewal {
        let count = self.state.lock().count().max(1);
        Renewal {
            limited,
            ..self.new_renewal(millis, Some(count))
        }
    }

    fn new_renewal(&self, millis: u64, count: Option<u32>) -> Renewal {
        let call = self.kind.renew(&self.key, &self.owner, millis, count);
        Renewal {
            millis,
            count,
            ..Renewal::confirming(self.key.clone(), call)
        }
    }

    /// Ends the holds on a shared grant whose leases have run out.
    fn lose_expired(&self) {
        let expired: List<u64> = {
            let shares = &self.state.lock().shares;
            let expired = shares
                .iter()
                .filter(|share| share.lease.expires().is_past());
            expired.map(|share| share.number).collect()
        };
        for hold in expired {
            self.lose_hold(hold, LostReason::Expired);
        }
    }

    pub(crate) fn release_call(&self) -> Call {
        self.kind.release(&self.key, &self.owner)
    }

    /// The call that follows the last level: releases the lock, or leaves it in Redis for the time
    /// that a level asked for.
    pub(crate) fn end_call(&self) -> Call {
        match self.kept_in_redis() {
            Some((millis, name)) => self.kind.leave(&self.key, &self.owner, millis, &name),
            None => self.release_call(),
        }
    }
}

impl Renew for Grant {
    fn schedule(&self) -> Schedule {
        self.is_noted.store(false, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.note_count();
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
        let is_wanted = self.state.lock().unconfirmed_since() <= latest;
        // Without the count it only reads.
        is_wanted.then(|| self.renewal(0, None))
    }

    fn next_step(&self, now: Moment) -> Step {
        let state = self.state.lock();
        match state.usage {
            Usage::Held => {}
            Usage::Free if now < state.expires() => return Step::Wait,
            Usage::Free => return Step::Forget,
            Usage::Idle(until) if now < until.min(state.expires()) => return Step::Wait,
            Usage::Idle(_) => {
                drop(state);
                return self.end_idle_grant().map_or(Step::Wait, Step::Release);
            }
            Usage::Ended => return Step::Forget,
        }
        let (action, ended) = state.action_at(now);
        let writes_count = state.write_count_at() <= now;
        let newest = state.holds;
        drop(state);
        if !ended.is_empty() {
            let lost = ended
                .iter()
                .filter(|&&(hold, reason)| self.lose_hold(hold, reason));
            // If not all are lost: another hold has the grant meanwhile, with a limit of its own.
            if lost.count() == ended.len() && self.has_ended() {
                return Step::Forget;
            }
        }
        match action {
            Action::Renew(millis) => Step::Renew(self.renewal_with_count(millis, Some(newest))),
            _ if writes_count => Step::Renew(self.renewal_with_count(0, None)),
            _ => Step::Wait,
        }
    }

    fn end_idle_grant(&self) -> Option<Call> {
        let keeper = self.keeper.upgrade()?;
        keeper.end_idle(self).then(|| self.release_call())
    }

    fn shut_down(self: Arc<Self>) -> Option<AtShutdown> {
        let lost = self.keeper.upgrade()?.shut_down(&self)?;
        Some(AtShutdown {
            release: self.end_call(),
            notify: Box::new(move || {
                self.notify_holders(&lost);
                Box::new(move || self.report(lost))
            }),
        })
    }

    fn key(&self) -> &LockKey {
        self.key()
    }

    fn confirm_now(&self) {
        let now = Moment::now();
        for share in &mut self.state.lock().shares {
            share.lease.confirm_now(now);
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
        self.lose_expired();
        let mut state = self.state.lock();
        if state.usage == Usage::Ended {
            return;
        }
        let prolonged = asked.after(Duration::from_millis(done.millis));
        state.lease_ends = state.lease_ends.max(prolonged);
        let is_held = state.usage == Usage::Held;
        for Share { number, lease, .. } in &mut state.shares {
            let is_limited = done.limited.is_some_and(|newest| *number <= newest);
            // A fixed lease ends at its own time, even if the grant was prolonged for another hold,
            // or for a level that is unlocked meanwhile.
            let is_for_others = match done.hold {
                Some(hold) => hold != *number,
                None => is_held && lease.levels.are_fixed(),
            };
            let millis = if is_for_others { 0 } else { done.millis };
            lease.renewed(asked, millis, is_limited);
        }
        if let Some(count) = done.count {
            state.wrote_count(count);
        }
    }

    fn not_renewed(&self, asked: &Renewal, cause: &str) {
        if let Some(count) = asked.count {
            self.state.lock().lost_count(count);
        }
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
