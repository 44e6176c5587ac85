//! What a test asks of the watchdog of a client of an in-memory server.

use std::sync::{Arc, Weak};

use super::{Renew, Shared, TargetId, Watchdog};
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::test_clock::{TestClock, TestedWatchdog};

impl Watchdog {
    /// From now on the test that has this clock can drive this watchdog.
    pub(crate) fn set_test_clock(&self, clock: &Arc<TestClock>) {
        let clock = self.shared.clock.get_or_init(|| Arc::clone(clock));
        let shared: Weak<Shared> = Arc::downgrade(&self.shared);
        clock.add_watchdog(shared);
    }
}

impl Shared {
    fn targets(&self) -> Vec<(TargetId, Arc<dyn Renew>)> {
        self.state.lock().registry.due(Moment::NEVER)
    }

    fn targets_of(&self, lock: &str) -> Vec<(TargetId, Arc<dyn Renew>)> {
        let mut targets = self.targets();
        targets.retain(|(_, target)| target.key().name() == lock);
        targets
    }
}

impl TestedWatchdog for Shared {
    fn apply_skips(&self, clock: &TestClock) {
        // It counts in real time, and confirmations may be due after the skip.
        self.state.lock().confirm_from = Moment::ZERO;
        for (id, target) in self.targets() {
            target.apply_skips(clock);
            self.reschedule(id, |schedule| schedule);
        }
        // What it could not release while the server was not available.
        for orphan in &mut self.state.lock().orphans {
            orphan.due = Moment::ZERO;
        }
        self.changed.notify_one();
    }

    fn next_due(&self) -> Moment {
        let state = self.state.lock();
        state.registry.next_step().unwrap_or(Moment::NEVER)
    }

    fn is_settled(&self) -> bool {
        let state = self.state.lock();
        let now = Moment::now();
        let orphans = state.orphans.iter().map(|orphan| orphan.due);
        let mut due = orphans.chain(state.registry.next_due());
        // During a pass of the thread, the moment is zero.
        state.phase != super::Phase::Open || state.asleep_until > now && due.all(|due| due > now)
    }

    fn keys_of(&self, lock: &str) -> Vec<LockKey> {
        let targets = self.targets_of(lock).into_iter();
        let held = targets.filter(|(_, target)| target.is_held());
        held.map(|(_, target)| target.key().clone()).collect()
    }

    fn confirm(&self, lock: &str) {
        self.confirm_now(|key| key.name() == lock);
    }
}
