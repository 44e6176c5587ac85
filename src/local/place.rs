//! The place of a waiting thread in the queue of a condition. The watchdog renews it.

use std::time::Duration;

use parking_lot::Mutex;

use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::parker::Unparker;
use crate::error::LostReason;
use crate::lease::drift;
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
    /// When the last request was sent whose reply confirmed the place.
    confirmed: Moment,
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
        Self {
            id: next_target_id(),
            key,
            call,
            lasts,
            unparker,
            state: Mutex::new(PlaceState {
                confirmed: asked,
                end: None,
            }),
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

    pub(crate) fn is_over(&self) -> bool {
        self.end().is_some()
    }

    /// When Redis may have confirmed it last.
    pub(crate) fn confirmed(&self) -> Moment {
        self.state.lock().confirmed
    }

    /// Records that Redis confirmed it by the reply to a request that was sent after `asked`.
    pub(crate) fn confirm(&self, asked: Moment) {
        let mut state = self.state.lock();
        state.confirmed = state.confirmed.max(asked);
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

    fn ends(&self) -> Moment {
        let confirmed = self.state.lock().confirmed;
        confirmed.after(self.lasts - drift(self.lasts))
    }
}

/// A shutdown wakes its thread, which ends the place itself.
impl Renew for Place {
    fn schedule(&self) -> Schedule {
        let ends = self.ends();
        Schedule {
            due: self.confirmed().after(self.lasts / 3),
            unconfirmed: Moment::NEVER,
            ends,
            lease: Some(self.lasts),
            retry: slack(self.lasts),
        }
    }

    fn next_step(&self, now: Moment) -> Step {
        if self.is_over() {
            return Step::Forget;
        }
        if now >= self.ends() {
            self.end_by(PlaceEnd::Unconfirmed);
            return Step::Forget;
        }
        if now < self.confirmed().after(self.lasts / 3 - slack(self.lasts)) {
            return Step::Wait;
        }
        Step::Renew(Renewal::confirming(self.call.clone()))
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
        self.confirmed().after(self.lasts)
    }
}

#[cfg(feature = "testing")]
impl crate::base::test_clock::Skip for Place {
    fn skip(&self, time: Duration) {
        let mut state = self.state.lock();
        state.confirmed = state.confirmed.before(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::owner::OwnerId;
    use crate::base::parker::{Parker, pair};
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
            assert!(!place.is_over());
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
