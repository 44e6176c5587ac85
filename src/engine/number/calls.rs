//! Takes permits of a semaphore, waits for them, and adds permits. Counts a latch down, and waits
//! until its count is zero.

use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;

use redis::Value;

use super::waiting::PermitRefusal;
use super::{Answered, NextRequest, Number, OnUnclear};
use crate::base::{CallBudget, Interrupt, Moment};
use crate::engine::line::rare_sleep;
use crate::engine::wait::{Channel, FIRST_POLL, Wait, polls, repeat_until_done};
use crate::error::{Error, Result};
use crate::observe::{WaitOutcome, WaitSpan};
use crate::protocol::{AcquireOptions, Change, PermitsSum, Refusal, RequestCopy, acquired};
use crate::request::Reply;

/// The largest number that a script of Redis can count with.
const LARGEST_COUNT: u64 = (1 << 53) - 1;

/// Of semaphores.
impl Number {
    pub(crate) fn try_set_permits(&self, permits: u32) -> Result<bool> {
        self.check(permits)?;
        self.set(Change::SetPermits(permits))
    }

    /// Takes permits if that many are free within `wait`, if that is set. Returns whether it took
    /// them. Fails if the interrupt is raised.
    pub(crate) fn acquire(
        &self,
        permits: u32,
        wait: Option<Duration>,
        interrupt: Option<&Interrupt>,
    ) -> Result<bool> {
        let budget = &self.budget_to_wait(wait, interrupt)?;
        self.check(permits)?;
        if permits == 0 {
            budget.check_interrupt(self.name())?;
            return Ok(true);
        }
        let span = WaitSpan::enter(self.name(), "semaphore");
        let waited = self.wait_for_permits(permits, budget);
        let outcome = WaitOutcome::of_wait(&waited);
        span.end(outcome);
        self.core.observer.count_failure(outcome);
        waited
    }

    /// Sends one request for permits, `next` if that is set. Repeats it while too few replicas
    /// confirm it. `None`: the permits are taken. Else what to wait for.
    pub(super) fn take<'a>(
        &'a self,
        permits: u32,
        options: &AcquireOptions,
        mut next: Option<NextRequest<'a>>,
        budget: &CallBudget,
    ) -> Result<Option<PermitRefusal>> {
        // Until permits that do not count are given back.
        let _call = self.core.watchdog.delay_shutdown();
        let mut pauses = polls();
        let mut unconfirmed = None;
        repeat_until_done(budget, self.name(), || {
            let call = |copy: RequestCopy<'_>| self.key().take(copy, permits, options);
            let asked = Moment::now();
            let decode = |reply: &Value| acquired(reply, asked);
            let answered = self.request_once(next.take(), call, decode, OnUnclear::Undo, budget);
            let is_over = budget.is_wait_over() || budget.reply_deadline().is_past();
            match answered {
                Ok(Answered { value, reply }) => {
                    return Ok(Break(
                        value.err().map(|refusal| waits_for(&refusal, &reply)),
                    ));
                }
                Err(error) if error.is_transient() && !is_over => unconfirmed = Some(error),
                // The last reply says more.
                Err(error @ Error::Unavailable { .. }) => {
                    return Err(unconfirmed.take().unwrap_or(error));
                }
                Err(error) => return Err(error),
            }
            budget.wait(pauses.next().min(budget.reply_deadline().left()));
            Ok(Continue(()))
        })
    }

    /// Returns permits, which this call need not have taken.
    pub(crate) fn release(&self, permits: u32) -> Result<()> {
        self.check(permits)?;
        self.add_permits(permits.into())
    }

    /// Adds permits, or removes some.
    pub(crate) fn add_permits(&self, permits: i64) -> Result<()> {
        let rule = "the free permits must stay between -2147483648 and 2147483647";
        let error = |_| Error::argument("permits", permits, rule).concerning(self.name());
        let added = i32::try_from(permits).map_err(error)?;
        if permits == 0 {
            return self.check_process().map(drop);
        }
        let sum: PermitsSum = self.change(Change::Add(added), OnUnclear::Repeat)?;
        self.core.queue.added_permits(&self.id, sum.has_called);
        if sum.has_called {
            self.core.watchdog.called(&self.key);
        }
        i32::try_from(sum.permits).map(drop).map_err(error)
    }

    /// Takes all free permits. Returns how many these were.
    pub(crate) fn drain(&self) -> Result<i64> {
        self.change(Change::Drain, OnUnclear::Undo)
    }

    /// Returns how many permits are free.
    pub(crate) fn available(&self) -> Result<i64> {
        let budget = self.check_open()?.budget_for_a_reply();
        self.read(&budget)
    }

    /// The bound of Java's `int`.
    fn check(&self, permits: u32) -> Result<()> {
        let rule = "a number of permits must be at most 2147483647";
        let error = |_| Error::argument("permits", permits, rule).concerning(self.name());
        i32::try_from(permits).map(drop).map_err(error)
    }
}

/// Of latches.
impl Number {
    pub(crate) fn try_set_count(&self, count: u64) -> Result<bool> {
        if count == 0 || count > LARGEST_COUNT {
            let rule = "the count of a latch must be between 1 and 9007199254740991";
            return Err(Error::argument("count", count, rule).concerning(self.name()));
        }
        self.set(Change::SetCount(count))
    }

    /// Decreases the count. Returns what is left.
    pub(crate) fn count_down(&self) -> Result<u64> {
        self.change(Change::CountDown, OnUnclear::Repeat)
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

    /// Waits until the count is zero, at most for `wait`, if that is set. Returns whether it is
    /// zero. Fails if the interrupt is raised.
    pub(crate) fn wait(
        &self,
        wait: Option<Duration>,
        interrupt: Option<&Interrupt>,
    ) -> Result<bool> {
        let budget = &self.budget_to_wait(wait, interrupt)?;
        let span = WaitSpan::enter(self.name(), "latch");
        let waited = self.wait_for_zero(budget);
        span.end(WaitOutcome::of_wait(&waited));
        waited
    }

    /// Reads the count until it is zero, or until the budget ends: then false. Each thread listens.
    /// It also asks within half a minute, because another program can change the key without a
    /// message.
    fn wait_for_zero(&self, budget: &CallBudget) -> Result<bool> {
        budget.check_interrupt(self.name())?;
        let channel = Channel::of(&self.core, &self.key);
        let mut wait = Wait::new(budget, polls());
        repeat_until_done(budget, self.name(), || {
            wait.listen_if_live(channel);
            budget.set_unanswered_since(Some(Moment::now()));
            let is_zero = self.count_within(budget)? == 0;
            budget.set_unanswered_since(None);
            if is_zero || budget.is_wait_over() {
                return Ok(Break(is_zero));
            }
            wait.sleep_listening(&self.core, &[channel], None, rare_sleep());
            Ok(Continue(()))
        })
    }
}

/// What a thread waits for that was refused by this reply.
fn waits_for(refusal: &Refusal, reply: &Reply) -> PermitRefusal {
    PermitRefusal {
        // The refusal may be that of a lost copy, from before a release whose message ended a pause
        // of the request.
        again: reply.lost_copies.is_ambiguous().then_some(FIRST_POLL),
        standing: refusal.standing,
    }
}
