//! The time that a test skips: see `leasehold::testing`.

use std::time::Duration;

use super::{Grant, GrantState, Usage};
use crate::base::test_clock::TestClock;

impl GrantState {
    fn make_earlier(&mut self, time: Duration) {
        self.lease.skipped(time);
        for sharer in &mut self.sharers {
            sharer.lease.skipped(time);
        }
        self.lease_ends = self.lease_ends.before(time);
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

    pub(super) fn make_confirmation_due(&self) {
        self.state
            .lock()
            .update_leases(|_, lease| lease.confirm_now());
    }
}
