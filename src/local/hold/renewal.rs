//! What the watchdog does for a hold, and how the hold handles the replies.

use super::Hold;
use crate::base::clock::Moment;
use crate::base::owner::OwnerId;
use crate::error::LostReason;
use crate::local::lease_state::Action;
use crate::observe::LockEvent;
use crate::script::{Count, Renewal};
use crate::watchdog::{Renew, Schedule, Step};

impl Renew for Hold {
    fn schedule(&self) -> Schedule {
        Self::schedule(self)
    }

    fn count_to_write(&self, now: Moment) -> Option<Count> {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return None;
        }
        Some(Count {
            key: self.key.clone(),
            owner: state.owner_ids.settle(now)?,
            count: state.lease.count(),
        })
    }

    fn count_written(&self, owner: &OwnerId) {
        self.state.lock().owner_ids.settled(owner);
    }

    fn next_step(&self, now: Moment) -> Step {
        let mut state = self.state_with_waiters();
        if state.end.is_some() {
            return Step::Forget;
        }
        let action = state.lease.action_at(now);
        let loss = if now >= state.lease.expires() {
            Some(LostReason::Expired)
        } else {
            (action == Action::LimitReached).then_some(LostReason::RenewalLimit)
        };
        if let Some(reason) = loss {
            drop(state);
            self.lose(reason);
            return Step::Forget;
        }
        let Action::Renew(millis) = action else {
            return Step::Wait;
        };
        state.pending_renewals += 1;
        Step::Renew(Renewal {
            key: self.key.clone(),
            owner: state.owner_ids.owner().clone(),
            millis,
        })
    }

    fn renewed(&self, asked: Moment, done: &Renewal) {
        self.end_renewal();
        // A hold that has ended meanwhile stays ended.
        if self.check().is_ok() {
            self.state.lock().lease.renewed(asked, done.millis);
        }
    }

    fn not_renewed(&self, cause: &str) {
        self.observer.emit(&LockEvent::RenewalFailed {
            lock: self.key.shared_name(),
            cause: cause.into(),
            lease_left: self.expires().left(),
        });
    }

    fn lost(&self, reason: LostReason, asked: &Renewal) -> bool {
        // False if the request had an owner id that the hold no longer has.
        let is_lost = asked.owner.covers(&self.owner());
        if is_lost {
            self.lose(reason);
        }
        is_lost
    }
}
