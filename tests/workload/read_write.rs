//! Both locks of a read-write lock in one thread.

use std::time::Duration;

use leasehold::Error;

use crate::hold_style::HoldStyle;
use crate::kind::{Access, Kind};
use crate::worker_thread::{Hold, Target, WorkerThread};

impl WorkerThread<'_> {
    /// Sometimes a thread that holds the write lock acquires the read lock, and unlocks the write
    /// lock first. Returns the hold that is left.
    pub fn downgrade(&mut self, hold: Hold, style: HoldStyle) -> (Hold, HoldStyle) {
        let is_write = self.args.kind_of(hold.at.lock) == Kind::ReadWrite
            && hold.at.access == Access::Exclusive;
        if !is_write || !style.nests() || self.random.bool() {
            return (hold, style);
        }
        let at = Target {
            access: Access::Shared,
            ..hold.at
        };
        let budget = self.budget_to_lock(Some(hold.call));
        let call = self.event_log.asks(at, budget, "downgrade".into());
        let read = self.tested(at).acquire(at.access);
        match read {
            Ok(read) => {
                self.event_log.has(call, None, None);
                self.release(hold, style);
                let hold = Hold { at, call, depth: 1 };
                self.work(hold, &read);
                (hold, read)
            }
            Err(error) => {
                let is_loss = matches!(error, Error::Lost { .. });
                self.event_log.failed(call, &error, is_loss);
                (hold, style)
            }
        }
    }

    /// A thread that holds the read lock cannot acquire the write lock.
    pub fn upgrade(&mut self, hold: Hold) {
        let at = Target {
            access: Access::Exclusive,
            ..hold.at
        };
        let budget = self.budget_for_a_reply();
        let call = self.event_log.asks(at, Some(budget), "upgrade".into());
        let lock = self.tested(at);
        match lock.try_acquire(at.access, Duration::ZERO, leasehold::Lease::RENEWED) {
            Err(error @ (Error::Upgrade { .. } | Error::Lost { .. })) => {
                self.event_log.answered(call, &error.to_string());
            }
            other => {
                let other = other.map(|held| held.is_some());
                self.event_log.wrong(call, &format!("{other:?}"));
            }
        }
    }
}
