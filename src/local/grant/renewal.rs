//! What the watchdog does for a grant, and how the grant handles the replies.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Grant, GrantState, Usage};
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::error::LostReason;
use crate::local::lease_state::Action;
use crate::observe::LockEvent;
use crate::script::Call;
use crate::watchdog::{Renew, Renewal, Schedule, Step};

/// A hold count that has differed for this long from what Redis has is written to Redis. It counts
/// from when the watchdog sees the difference, so that all of it takes less than a second.
const WRITE_COUNT_AFTER: Duration = Duration::from_millis(150);

/// The pause after a failed release of an idle grant.
const RETRY_IDLE: Duration = Duration::from_millis(10);

impl GrantState {
    pub(super) fn schedule_without_count(&self) -> Schedule {
        let ends = self.lease.expires();
        let until = match self.usage {
            Usage::Held(..) => return self.lease.schedule(),
            Usage::Idle(until) => until.min(ends),
            // Soon it is held or idle again, or forgotten.
            Usage::Free | Usage::Ended => ends,
        };
        Schedule {
            due: until,
            ends,
            lease: None,
            retry: RETRY_IDLE,
        }
    }

    /// When the count is written although nothing else is due. Only a hold has a count.
    fn write_count_at(&self) -> Moment {
        match (&self.usage, self.count_changed) {
            (Usage::Held(..), Some(since)) if self.has_new_count() => {
                since.after(WRITE_COUNT_AFTER)
            }
            _ => Moment::NEVER,
        }
    }
}

impl Grant {
    /// The renewal for `millis` milliseconds; with 0, Redis only confirms that it has the grant.
    /// `limited` is the hold whose limit of renewals it counts against.
    pub(crate) fn renewal(&self, millis: u64, limited: Option<u64>) -> Renewal {
        let count = self.levels().max(1);
        Renewal {
            key: self.key.clone(),
            call: self.protocol.renew(&self.key, &self.owner, millis, count),
            millis,
            count,
            limited,
        }
    }

    /// Records that a renewal got no reply. Redis may have written its hold count.
    pub(crate) fn lost_reply(&self, asked: &Renewal) {
        self.state.lock().lost_count(asked.count);
    }

    pub(crate) fn release_call(&self) -> Call {
        self.protocol.release(&self.key, &self.owner)
    }
}

impl Renew for Grant {
    fn schedule(&self) -> Schedule {
        self.is_count_noted.store(false, Ordering::Relaxed);
        let is_awaited = self.is_awaited();
        let mut state = self.state.lock();
        state.lease.set_awaited(is_awaited);
        state.note_count();
        let schedule = state.schedule_without_count();
        let due = schedule.due.min(state.write_count_at());
        state.watched_until = due;
        Schedule { due, ..schedule }
    }

    fn next_step(&self, now: Moment) -> Step {
        let is_awaited = self.is_awaited();
        let mut state = self.state.lock();
        let hold = match state.usage {
            Usage::Held(number, _) => number,
            Usage::Free if now < state.lease.expires() => return Step::Wait,
            Usage::Free => return Step::Forget,
            Usage::Idle(until) if now < until.min(state.lease.expires()) => return Step::Wait,
            Usage::Idle(_) => {
                drop(state);
                return self.end_idle_grant().map_or(Step::Wait, Step::Release);
            }
            Usage::Ended => return Step::Forget,
        };
        state.lease.set_awaited(is_awaited);
        let action = state.lease.action_at(now);
        let loss = if now >= state.lease.expires() {
            Some(LostReason::Expired)
        } else {
            (action == Action::LimitReached).then_some(LostReason::RenewalLimit)
        };
        let writes_count = state.write_count_at() <= now;
        drop(state);
        if let Some(reason) = loss {
            return match self.lose_hold(hold, reason) {
                true => Step::Forget,
                // Another hold has the grant meanwhile, with a limit of its own.
                false => Step::Wait,
            };
        }
        match action {
            Action::Renew(millis) => Step::Renew(self.renewal(millis, Some(hold))),
            _ if writes_count => Step::Renew(self.renewal(0, None)),
            _ => Step::Wait,
        }
    }

    fn end_idle_grant(&self) -> Option<Call> {
        let keeper = self.keeper.upgrade()?;
        keeper.end_idle(self).then(|| self.release_call())
    }

    fn key(&self) -> &LockKey {
        self.key()
    }

    fn lease_ends(&self) -> Moment {
        self.lease_ends()
    }

    fn renewed(&self, asked: Moment, done: &Renewal) {
        // A grant whose lease has run out meanwhile is lost: no late reply brings it back.
        if self.expires().is_past() {
            self.lose(LostReason::Expired);
            return;
        }
        let mut state = self.state.lock();
        if matches!(state.usage, Usage::Ended) {
            return;
        }
        let is_limited = done.limited.is_some_and(|hold| state.is_held_by(hold));
        state.lease.renewed(asked, done.millis, is_limited);
        state.wrote_count(done.count);
    }

    fn not_renewed(&self, asked: &Renewal, cause: &str) {
        self.lost_reply(asked);
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
