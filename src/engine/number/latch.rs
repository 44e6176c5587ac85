//! Counts a latch down, and waits until its count is zero.

use std::time::Duration;

use super::waiting::Step;
use super::{IfUnclear, Number, refused};
use crate::base::call_budget::CallBudget;
use crate::base::interrupt::Interrupt;
use crate::error::Result;
use crate::observe::{self, Outcome};
use crate::protocol::{RequestCopy, number};

/// The largest number that a script of Redis can count with.
const LARGEST_COUNT: u64 = (1 << 53) - 1;

impl Number {
    pub(crate) fn try_set_count(&self, count: u64) -> Result<bool> {
        if count == 0 || count > LARGEST_COUNT {
            let rule = "the count of a latch must be between 1 and 9007199254740991";
            return Err(refused("count", count, rule));
        }
        self.set(|copy| self.key().set_count(copy, count))
    }

    /// Decreases the count. Returns what is left.
    pub(crate) fn count_down(&self) -> Result<u64> {
        let budget = self.check_process()?.budget_to_unlock();
        let call = |copy: RequestCopy<'_>| self.key().count_down(copy);
        let left = self.request_once(call, number, IfUnclear::Repeat, &budget)?;
        Ok(left.value)
    }

    pub(crate) fn count(&self) -> Result<u64> {
        let budget = self.check_open()?.budget_for_a_reply();
        self.count_within(&budget)
    }

    /// A negative number, which another program has written, is an open latch.
    fn count_within(&self, budget: &CallBudget) -> Result<u64> {
        let count: i64 = self.read(budget)?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Waits until the count is zero.
    pub(crate) fn wait(&self) -> Result<()> {
        let budget = self.check_open()?.budget_to_lock();
        self.wait_within(budget).map(drop)
    }

    /// Waits until the count is zero, at most for `time`. Returns whether it is zero.
    pub(crate) fn wait_for(&self, time: Duration) -> Result<bool> {
        let budget = self.check_open()?.budget_with_wait(time);
        self.wait_within(budget)
    }

    /// Waits until the count is zero; fails if it is interrupted.
    pub(crate) fn wait_interruptibly(&self, interrupt: &Interrupt) -> Result<()> {
        let budget = self.check_open()?.budget_until_interrupted(interrupt);
        self.wait_within(budget).map(drop)
    }

    /// Waits until the count is zero, at most for `time`; fails if it is interrupted.
    pub(crate) fn wait_for_interruptibly(
        &self,
        time: Duration,
        interrupt: &Interrupt,
    ) -> Result<bool> {
        let budget = self.check_open()?.budget_with_wait(time);
        self.wait_within(budget.with_interrupt(interrupt))
    }

    fn wait_within(&self, budget: CallBudget<'_>) -> Result<bool> {
        let budget = &budget.until_shutdown(&self.core.shutdown);
        let request = |_| {
            Ok(match self.count_within(budget)? {
                0 => Step::DoneForAll,
                _ => Step::Wait(None),
            })
        };
        let call = || self.wait_for_step(0, budget, request);
        observe::wait(self.name(), "latch", call, Outcome::of_wait)
    }
}
