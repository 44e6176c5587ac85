//! The place of a waiting thread in the queue of a condition. The watchdog renews it.

use std::time::Duration;

use parking_lot::Mutex;

use super::lease_state::LeaseState;
use crate::base::{LockKey, Moment, Unparker};
use crate::error::LostReason;
use crate::script::Call;
use crate::watchdog::{Renew, Renewal, Schedule, Step, TargetId, next_target_id, slack};

/// A place that is renewed until it is over: by the reply of Redis, or because no renewal was
/// confirmed in time. Then its thread is woken.
#[derive(Debug)]
pub(crate) struct Place {
    id: TargetId,
    key: LockKey,
    /// Renews it.
    call: Call,
    lasts: Duration,
    unparker: Unparker,
    state: Mutex<PlaceState>,
}

#[derive(Debug)]
struct PlaceState {
    lease: LeaseState,
    end: Option<PlaceEnd>,
}

/// Why a thread need not wait in its place any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaceEnd {
    /// Redis has replied that the thread is notified, or has no place.
    Told,
    /// No renewal was confirmed in time.
    Unconfirmed,
}

impl Place {
    /// A place that Redis confirmed by the reply to a request that was sent after `asked`.
    pub(crate) fn new(
        key: LockKey,
        call: Call,
        lasts: Duration,
        asked: Moment,
        unparker: Unparker,
    ) -> Self {
        let lease = LeaseState::new(lasts, asked);
        Self {
            id: next_target_id(),
            key,
            call,
            lasts,
            unparker,
            state: Mutex::new(PlaceState { lease, end: None }),
        }
    }

    pub(crate) fn id(&self) -> TargetId {
        self.id
    }

    /// The call that renews it.
    pub(crate) fn call(&self) -> &Call {
        &self.call
    }

    pub(crate) fn end(&self) -> Option<PlaceEnd> {
        self.state.lock().end
    }

    /// When Redis may have confirmed it last.
    pub(crate) fn confirmed(&self) -> Moment {
        self.state.lock().lease.confirmed
    }

    /// Records that Redis confirmed it by the reply to a request that was sent after `asked`.
    pub(crate) fn confirm(&self, asked: Moment) {
        self.state.lock().lease.granted(asked, self.lasts);
    }

    /// Ends it after a reply of Redis, and wakes its thread.
    pub(crate) fn told(&self) {
        self.end_by(PlaceEnd::Told);
    }

    /// Ends it in this process, and wakes its thread.
    fn end_by(&self, end: PlaceEnd) {
        self.state.lock().end.get_or_insert(end);
        self.unparker.unpark();
    }
}

/// A shutdown wakes its thread, which ends the place itself.
impl Renew for Place {
    fn schedule(&self) -> Schedule {
        let LeaseState {
            confirmed, expires, ..
        } = self.state.lock().lease;
        Schedule {
            due: confirmed.after(self.lasts / 3),
            unconfirmed: Moment::NEVER,
            ends: expires,
            lease: Some(self.lasts),
            retry: slack(self.lasts),
        }
    }

    fn next_step(&self, now: Moment) -> Step {
        let Schedule { due, ends, .. } = self.schedule();
        if self.end().is_some() {
            return Step::Forget;
        }
        if now >= ends {
            self.end_by(PlaceEnd::Unconfirmed);
            return Step::Forget;
        }
        match now < due.before(slack(self.lasts)) {
            true => Step::Wait,
            false => Step::Renew(Renewal::confirming(self.call.clone())),
        }
    }

    fn renewed(&self, asked: Moment, _done: &Renewal) {
        self.confirm(asked);
    }

    fn lost(&self, _reason: LostReason) {
        self.told();
    }

    fn key(&self) -> &LockKey {
        &self.key
    }

    fn lease_ends(&self) -> Moment {
        self.state.lock().lease.lease_ends
    }
}

#[cfg(feature = "testing")]
impl crate::base::test_clock::Skip for Place {
    fn skip(&self, time: Duration) {
        self.state.lock().lease.shift_back(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::OwnerId;
    use crate::base::parker::{Parker, pair};
    use crate::lease::drift;
    use crate::protocol::ConditionKeys;

    const LASTS: Duration = Duration::from_secs(3);

    fn place(asked: Moment) -> (Place, Parker) {
        let (unparker, parker) = pair();
        let key = LockKey::new("", "lock");
        let keys = ConditionKeys::new(&key, "ready").unwrap();
        let call = keys.renew(&OwnerId::new("client"), LASTS, true);
        (Place::new(key, call, LASTS, asked, unparker), parker)
    }

    #[test]
    fn it_is_renewed_three_times_before_it_ends() {
        let asked = Moment::now();
        let (place, _parker) = place(asked);
        let after = |millis| asked.after(Duration::from_millis(millis));
        assert_eq!(place.schedule().due, after(1000));
        assert!(matches!(place.next_step(after(800)), Step::Wait));
        for millis in [1000, 2000, 2900] {
            let Step::Renew(renewal) = place.next_step(after(millis)) else {
                panic!("not renewed after {millis} ms");
            };
            assert_eq!(place.end(), None);
            if millis == 2900 {
                place.renewed(after(millis), &renewal);
            }
        }
        assert_eq!(place.schedule().due, after(3900));
        assert_eq!(place.lease_ends(), after(5900));
    }

    #[test]
    fn its_thread_is_woken_when_it_is_gone_or_could_be() {
        let (gone, parker) = place(Moment::now());
        gone.lost(LostReason::Deleted);
        assert_eq!(gone.end(), Some(PlaceEnd::Told));
        assert!(parker.sleep(Duration::ZERO));
        assert!(matches!(gone.next_step(Moment::now()), Step::Forget));

        let asked = Moment::now();
        let (unconfirmed, parker) = place(asked);
        let before_end = asked.after(LASTS - drift(LASTS));
        assert!(matches!(unconfirmed.next_step(before_end), Step::Forget));
        assert_eq!(unconfirmed.end(), Some(PlaceEnd::Unconfirmed));
        assert!(parker.sleep(Duration::ZERO));
    }
}
