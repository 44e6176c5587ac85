//! The time that a test skips: see `leasehold::testing`.

use std::time::Duration;

use super::{Grant, GrantState, Usage};
use crate::base::clock::Moment;
use crate::base::test_clock::TestClock;

impl GrantState {
    /// True if time was skipped after this request was sent. Then its reply does not tell how long
    /// Redis keeps the lock.
    pub(super) fn is_before_skip(&self, asked: Moment) -> bool {
        asked < self.skips_counted_until
    }

    fn make_earlier(&mut self, time: Duration) {
        self.lease.shift_back(time);
        for sharer in &mut self.sharers {
            sharer.lease.shift_back(time);
        }
        self.lease_ends = self.lease_ends.before(time);
        self.seen.1 = self.seen.1.before(time);
        self.count_changed = self.count_changed.map(|since| since.before(time));
        if let Usage::Idle(until) = &mut self.usage {
            *until = until.before(time);
        }
    }
}

impl Grant {
    pub(super) fn count_skips(&self, clock: &TestClock) {
        let mut state = self.state.lock();
        let skipped = clock.take_skipped(&mut state.skips_counted_until);
        state.make_earlier(skipped);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::owner::ThreadId;
    use crate::local::hold::Hold;
    use crate::local::test_support::{LEASE, grant, renewed};
    use crate::watchdog::Renew;

    #[test]
    fn a_skip_counts_once_and_a_reply_from_before_it_does_not_prolong_the_lease() {
        let queue = Arc::default();
        let asked = Moment::now();
        let grant = grant(&queue, "k", renewed(), asked, 0..0);
        let _hold = Hold::first_of(&grant, ThreadId::current());
        let (ends, renewal) = (grant.lease_ends(), grant.renewal(LEASE, None));
        let clock = TestClock::new(Arc::new(()));
        let late = Moment::now();
        let second = Duration::from_secs(1);
        clock.skip(second);
        grant.apply_skips(&clock);
        grant.apply_skips(&clock);
        assert_eq!(grant.lease_ends(), ends.before(second));
        grant.renewed(late, &renewal);
        assert_eq!(grant.lease_ends(), ends.before(second));
        grant.renewed(Moment::now(), &renewal);
        assert!(grant.lease_ends() > ends.before(second));
    }
}
