//! What a test asks of the watchdog of a client of an in-memory server.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{Renew, Schedule, Shared, TargetId};
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::test_clock::{ClientClock, TestedWatchdog};

impl Shared {
    /// From now on the test that has this clock can drive this watchdog.
    pub(super) fn register(self: &Arc<Self>, clock: &ClientClock) {
        let this: Weak<Self> = Arc::downgrade(self);
        clock.test().inspect(|test| test.add_watchdog(this));
    }

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
    fn skip(&self, time: Duration) {
        for (id, target) in self.targets() {
            target.skip(time);
            self.reschedule(id, |target| target.schedule());
        }
        // What it could not release while the server was not available.
        for orphan in &mut self.state.lock().orphans {
            orphan.due = Moment::ZERO;
            orphan.until = orphan.until.before(time);
        }
        self.changed.notify_one();
    }

    fn next_due(&self) -> Moment {
        let (now, state) = (Moment::now(), self.state.lock());
        let due = state.registry.targets.values().map(|target| {
            let Schedule {
                due, ends, lease, ..
            } = target.schedule;
            // Confirmations are made together, before the last third of a lease.
            let last = lease.map_or(ends.since(now) / 2, |lease| lease / 3);
            due.max(ends.before(last))
        });
        due.min().unwrap_or(Moment::NEVER)
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
        for (id, target) in self.targets_of(lock) {
            target.confirm_now();
            self.reschedule(id, |target| target.schedule());
        }
    }
}
