//! The time that a test skips: see `leasehold::testing`.

use std::time::Duration;

use super::{Grant, Usage};
use crate::base::test_clock::Skip;

impl Skip for Grant {
    fn skip(&self, time: Duration) {
        let state = &mut *self.state.lock();
        state.lease.shift_back(time);
        for sharer in &mut state.sharers {
            sharer.lease.shift_back(time);
        }
        state.lease_ends = state.lease_ends.before(time);
        state.seen.1 = state.seen.1.before(time);
        state.count_changed = state.count_changed.map(|since| since.before(time));
        if let Usage::Idle(until) = &mut state.usage {
            *until = until.before(time);
        }
    }
}
