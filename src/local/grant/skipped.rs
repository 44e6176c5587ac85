//! The time that a test skips: see `leasehold::testing`.

use std::sync::Weak;
use std::time::Duration;

use super::{Grant, Usage};
use crate::base::test_clock::Skip;

impl Skip for Grant {
    fn skip(&self, time: Duration) {
        let state = &mut *self.state.lock();
        let lost = state.lost.iter().filter_map(Weak::upgrade);
        for hold in state.live().chain(lost) {
            let hold = &mut *hold.state.lock();
            hold.lease.shift_back(time);
            hold.levels.shift_back(time);
            hold.since = hold.since.before(time);
        }
        state.lease.shift_back(time);
        state.lease_ends = state.lease_ends.before(time);
        state.seen = state.seen.map(|since| since.before(time));
        state.count_changed = state.count_changed.map(|since| since.before(time));
        if let Usage::Idle(until) = &mut state.usage {
            *until = until.before(time);
        }
    }
}
