//! What a test asks of the watchdog of a client of an in-memory server.

use std::time::Duration;

use leasehold_testing::clock::{HeldLock, TestedWatchdog};

use super::{Phase, Shared};
use crate::base::{LockKey, Moment};

/// The owner id of another process.
const OTHER: &str = "00000000-0000-0000-0000-000000000000:1";

impl TestedWatchdog for Shared {
    fn skip(&self, time: Duration) {
        // It counts in real time, and confirmations may be due after the skip.
        self.state.lock().confirm_from = Moment::ZERO;
        for (id, target) in self.targets() {
            target.skip(time);
            self.reschedule(id);
        }
        self.lines.lock().skip(time);
        // What it could not release while the server was not available.
        let orphans = &mut self.state.lock().orphans;
        for mut orphan in orphans.take_all() {
            orphan.due = Moment::ZERO;
            orphan.until = orphan.until.before(time);
            orphans.push(orphan);
        }
        self.changed.notify_all();
    }

    fn next_due(&self) -> Duration {
        let mut state = self.state.lock();
        Self::read_noted(&mut state);
        state.registry.next_due().unwrap_or(Moment::NEVER).left()
    }

    fn is_settled(&self) -> bool {
        let mut state = self.state.lock();
        Self::read_noted(&mut state);
        let now = Moment::now();
        let orphans = state.orphans.next().into_iter();
        let mut due = orphans.chain(self.first_due(&state));
        // During a pass of the thread, the moment is zero.
        state.phase != Phase::Open || state.asleep_until > now && due.all(|due| due > now)
    }

    fn held(&self, lock: &str) -> Vec<HeldLock> {
        let mut targets = self.targets();
        targets.retain(|(_, target)| {
            // Of what no thread holds, nothing is unconfirmed.
            target.key().name() == lock && target.schedule().unconfirmed != Moment::NEVER
        });
        let held = targets.iter().map(|(_, target)| held_lock(target.key()));
        held.collect()
    }

    fn confirm(&self, lock: &str) {
        self.confirm_now(|key| key.name() == lock);
    }
}

fn held_lock(lock: &LockKey) -> HeldLock {
    HeldLock {
        key: lock.owners_key(),
        taken_over: lock.family().fields_of(OTHER),
    }
}
