//! What a test asks of the watchdog of a client of an in-memory server.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{Renew, Shared, TargetId};
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::test_clock::{ClientClock, TestedWatchdog};

impl Shared {
    /// From now on the test that has this clock can drive this watchdog.
    pub(super) fn register(self: &Arc<Self>, clock: &ClientClock) {
        let this: Weak<Self> = Arc::downgrade(self);
        clock.test().inspect(|test| test.add_watchdog(this));
    }

    fn targets_of(&self, lock: &str) -> Vec<(TargetId, Arc<dyn Renew>)> {
        let mut targets = self.targets();
        targets.retain(|(_, target)| target.key().name() == lock);
        targets
    }
}

impl TestedWatchdog for Shared {
    fn skip(&self, time: Duration) {
        // It counts in real time, and confirmations may be due after the skip.
        self.state.lock().confirm_from = Moment::ZERO;
        for (id, target) in self.targets() {
            target.skip(time);
            self.reschedule(id);
        }
        // What it could not release while the server was not available.
        for orphan in &mut self.state.lock().orphans {
            orphan.due = Moment::ZERO;
            orphan.until = orphan.until.before(time);
        }
        self.changed.notify_one();
    }

    fn next_due(&self) -> Moment {
        let mut state = self.state.lock();
        self.read_noted(&mut state);
        state.registry.next_due().unwrap_or(Moment::NEVER)
    }

    fn is_settled(&self) -> bool {
        let mut state = self.state.lock();
        self.read_noted(&mut state);
        let now = Moment::now();
        let orphans = state.orphans.iter().map(|orphan| orphan.due);
        let mut due = orphans.chain(self.first_due(&state));
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
