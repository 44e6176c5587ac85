//! Counts a latch down, and waits until its count is zero.

use std::time::Duration;

use super::waiting::{Refusal, Step};
use super::{IfUnclear, Number, Ready, refused};
use crate::base::call_budget::CallBudget;
use crate::base::interrupt::Interrupt;
use crate::error::Result;
use crate::observe::{self, Outcome};
use crate::protocol::{Ask, Change, RequestCopy, number};

/// The largest number that a script of Redis can count with.
const LARGEST_COUNT: u64 = (1 << 53) - 1;

impl Number {
    pub(crate) fn try_set_count(&self, count: u64) -> Result<bool> {
        if count == 0 || count > LARGEST_COUNT {
            let rule = "the count of a latch must be between 1 and 9007199254740991";
            return Err(refused("count", count, rule));
        }
        self.set(|copy| self.key().change(copy, Change::SetCount(count)))
    }

    /// Decreases the count. Returns what is left.
    pub(crate) fn count_down(&self) -> Result<u64> {
        let budget = self.check_process()?.budget_to_unlock();
        let call = |copy: RequestCopy<'_>| self.key().change(copy, Change::CountDown);
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

    /// Waits until the count is zero, at most for `time`, if that is set. Returns whether it is
    /// zero. Fails if the interrupt is raised.
    pub(crate) fn wait(
        &self,
        time: Option<Duration>,
        interrupt: Option<&Interrupt>,
    ) -> Result<bool> {
        let budget = &self.budget_to_wait(time, interrupt)?;
        let request = |_: Ask<'_>, _: Option<Ready<'_>>| {
            Ok(match self.count_within(budget)? {
                0 => Step::DoneForAll,
                _ => Step::Wait(Refusal::default()),
            })
        };
        let call = || self.request_until_done(0, budget, request);
        observe::wait(self.name(), "latch", call, Outcome::of_wait)
    }
}
