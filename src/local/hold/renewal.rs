//! What a hold wants of the watchdog, and what it makes of the answers.

use super::Hold;
use crate::clock::Moment;
use crate::error::LostReason;
use crate::local::tenure::Want;
use crate::observe::LockEvent;
use crate::owner::Owner;
use crate::script::{Count, Renewal};
use crate::watchdog::{Renew, Schedule, Step};

impl Renew for Hold {
    fn settle(&self, now: Moment) -> Option<Count> {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return None;
        }
        Some(Count {
            key: self.key.clone(),
            owner: state.naming.settle(now)?,
            count: state.tenure.count(),
        })
    }

    fn settled(&self, owner: &Owner) {
        self.state.lock().naming.settled(owner);
    }

    fn step(&self, now: Moment) -> Step {
        let mut state = self.state_as_awaited();
        if state.end.is_some() {
            return Step::Over;
        }
        let want = state.tenure.wants(now);
        let loss = if now >= state.tenure.expires() {
            Some(LostReason::Expired)
        } else {
            (want == Want::Limit).then_some(LostReason::RenewalLimit)
        };
        if let Some(reason) = loss {
            drop(state);
            self.lose(reason);
            return Step::Over;
        }
        let Want::Renewal(millis) = want else {
            return Step::Wait(state.schedule());
        };
        state.unconfirmed += 1;
        Step::Renew(Renewal {
            key: self.key.clone(),
            owner: state.naming.owner().clone(),
            millis,
        })
    }

    fn renewed(&self, asked: Moment, done: &Renewal) -> Schedule {
        self.answered();
        // A hold that is over by now says so, and does not come back.
        if self.check().is_ok() {
            self.state.lock().tenure.renewed(asked, done.millis);
        }
        self.schedule()
    }

    fn not_renewed(&self, cause: &str) -> Schedule {
        let now = Moment::now();
        let (expires, retry) = {
            let tenure = &self.state.lock().tenure;
            (tenure.expires(), tenure.retry(now))
        };
        self.observer.emit(&LockEvent::RenewalFailed {
            lock: self.key.shared_name(),
            cause: cause.into(),
            lease_left: expires.since(now),
        });
        retry
    }

    fn lost(&self, reason: LostReason, asked: &Renewal) -> Option<Schedule> {
        if !asked.owner.covers(&self.owner()) {
            // It was not asked for under the name that it has now.
            return Some(self.state.lock().tenure.retry(Moment::now()));
        }
        self.lose(reason);
        None
    }
}
