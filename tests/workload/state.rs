//! What a thread asks about the state of a lock.

use leasehold::Lock;

use crate::worker_thread::{Target, WorkerThread};

impl WorkerThread<'_> {
    /// Asks Redis for the state of the lock.
    pub fn look(&mut self, at: Target) {
        let budget = self.budget_for_a_reply();
        let what = match self.tested(at).lock(at.access) {
            Some(_) => "is_locked",
            None => "available",
        };
        let call = self.event_log.asks(at, Some(budget), what.into());
        match self.tested(at).state(at.access) {
            Ok(state) => self.event_log.answered(call, &state),
            Err(error) => self.event_log.failed(call, &error, false),
        }
    }

    /// How many levels of the lock this thread holds.
    pub fn levels(&self, at: Target) -> u32 {
        let lock = self.tested(at).lock(at.access);
        lock.map_or(0, Lock::hold_count)
    }

    /// Checks that this thread holds `expected` levels after a nested call, or none because the
    /// lock is lost.
    pub fn check_levels(&self, call: u64, at: Target, expected: u32) {
        let levels = self.levels(at);
        if levels > 0 && levels != expected {
            let answer = format!("{levels} levels are held, not {expected}");
            self.event_log.wrong(call, &answer);
        }
    }
}
