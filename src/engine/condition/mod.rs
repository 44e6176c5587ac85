//! Waits on a condition of a lock, and notifications. The protocol is described in
//! `protocol/condition.rs`.
//!
//! | file | duty |
//! |---|---|
//! | `waiting` | the place of this thread in the queue of the condition, until its end |

mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::acquire::acquire_missing;
use super::group::request_grant;
use super::held::note_count;
use super::parts::{Missing, Part, Parts};
use super::release::release_level;
use crate::base::call_budget::CallBudget;
use crate::base::interrupt::Interrupt;
use crate::base::list::List;
use crate::core::Core;
use crate::error::{Error, LostReason, Result};
use crate::local::{Hold, Unlocks};
use crate::observe::{Outcome, WaitSpan};
use crate::protocol::{ConditionKeys, Ended, Intent, Notified, Verdict};
use waiting::{WaiterNames, Waiting, Woken};

impl Parts {
    /// Unlocks all levels of this thread, waits for a notification for at most `wait`, and acquires
    /// the lock again with the same levels. False if the time was over before a notification.
    pub(crate) fn wait_on(
        &self,
        condition: &str,
        wait: Duration,
        interrupt: Option<&Interrupt>,
    ) -> Result<bool> {
        let (part, hold) = self.own_hold()?;
        let span = WaitSpan::enter(self.name(), "condition");
        let budget = part.core.budget_to_wait(Some(wait), interrupt);
        let result = self.wait_with(part, &hold, condition, &self.until_shutdown(budget));
        span.end(Outcome::of(&result, Outcome::of_wait).label());
        result
    }

    fn wait_with(
        &self,
        part: &Part,
        hold: &Arc<Hold>,
        condition: &str,
        budget: &CallBudget<'_>,
    ) -> Result<bool> {
        let core = &part.core;
        let keys = ConditionKeys::new(&part.key, condition)?;
        // Until the place has ended.
        let _calls = self.begin_calls();
        budget.check_interrupt(self.name())?;
        let names = WaiterNames::new(core, keys);
        let mut waiting = Waiting::begin(part, &names, hold, budget)?;
        let suspended = release_level((core, hold, Unlocks::Suspends), || core.budget_to_unlock());
        if let Err(error @ Error::Lost { .. }) = suspended {
            waiting.end(Intent::Pass);
            return Err(error);
        }
        // After a release without a reply, the watchdog releases the lock.
        let woken = waiting.sleep();
        if let Err(error) = self.resume(core, hold) {
            let is_shut_down = matches!(error, Error::ShutDown { .. });
            hold.abandon(is_shut_down.then_some(LostReason::ShutDown));
            waiting.end(Intent::Pass);
            return Err(error);
        }
        let intent = match hold.check() {
            Ok(()) => Intent::Take,
            Err(_) => Intent::Pass,
        };
        let ended = waiting.end(intent);
        hold.check()?;
        match (woken, ended) {
            (Woken::TimedOut, Some(Ended::NotNotified)) => Ok(false),
            (Woken::Interrupted, Some(Ended::NotNotified)) => Err(Error::Interrupted {
                lock: self.name().into(),
            }),
            // Notified, or not known: then it is a spurious wake-up.
            _ => Ok(true),
        }
    }

    /// Acquires the lock again for a suspended hold, which then continues.
    fn resume(&self, core: &Core, hold: &Arc<Hold>) -> Result<()> {
        let terms = hold.terms_to_resume().ok_or_else(|| hold.not_held())?;
        let missing: List<Missing<'_>> = self.list.iter().map(|part| (part, terms)).collect();
        let budget = self.to_acquire(core.budget_to_wait(None, None));
        let call = self.call(core, &budget);
        let span = self.begin_wait();
        let result = acquire_missing(call, &missing, (call.enter_queue().claim, None));
        let acquired = self.end_wait(span, core, result)?;
        for acquired in acquired.ok_or_else(|| hold.not_held())? {
            core.queue.resume(hold, &acquired.hold);
        }
        core.watchdog.reschedule(hold.grant().id());
        note_count(core, hold);
        Ok(())
    }

    /// Notifies waiters of a condition.
    pub(crate) fn notify(&self, condition: &str, notified: Notified) -> Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (Part { core, key, .. }, hold) = self.own_hold()?;
        let keys = ConditionKeys::new(key, condition)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let call = keys.notify(hold.grant().owner(), number, notified);
        match request_grant(core, key, call, &core.budget_to_unlock())?.verdict {
            Verdict::Lost(reason) => Err(lose(core, &hold, reason)),
            Verdict::Done { .. } => Ok(()),
        }
    }

    /// The part of a lock of one name, and the hold of this thread.
    fn own_hold(&self) -> Result<(&Part, Arc<Hold>)> {
        self.check_open()?;
        let part = self.list.first().ok_or_else(|| self.not_held())?;
        let hold = part.hold().ok_or_else(|| self.not_held())?;
        hold.check()?;
        let is_other_kind = hold.grant().kind.name != part.kind.name;
        if is_other_kind || hold.is_of_majority() {
            return Err(Error::Config {
                field: "name",
                value: format!("{:?}", self.name()),
                rule: "this thread holds it as another kind of lock; use one kind of lock per name"
                    .into(),
            });
        }
        Ok((part, hold))
    }
}

/// Ends a hold whose lock Redis does not have any more. Returns the error of the loss.
fn lose(core: &Core, hold: &Hold, reason: LostReason) -> Error {
    core.watchdog.forget(hold.grant().id());
    hold.lose(reason);
    hold.loss_error(reason)
}
