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

use super::held::note_count;
use super::parts::{Part, Parts};
use super::release::suspend;
use crate::base::interrupt::Interrupt;
use crate::error::{Error, LostReason, Result};
use crate::local::Hold;
use crate::observe::{self, Outcome};
use crate::protocol::{ConditionKeys, Ended, Intent, Notified, Verdict, verdicts};
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
        let call = || self.wait_with(part, &hold, condition, wait, interrupt);
        observe::wait(self.name(), "condition", call, Outcome::of_wait)
    }

    fn wait_with(
        &self,
        part: &Part,
        hold: &Arc<Hold>,
        condition: &str,
        wait: Duration,
        interrupt: Option<&Interrupt>,
    ) -> Result<bool> {
        let keys = ConditionKeys::new(&part.key, condition)?;
        let core = &part.core;
        let budget = self.until_shutdown(core.budget_to_wait(Some(wait), interrupt));
        // Until the place has ended.
        let _calls = self.begin_calls();
        budget.check_interrupt(self.name())?;
        let names = WaiterNames::new(core, keys);
        let mut waiting = Waiting::begin(part, &names, hold, &budget)?;
        if let Err(error @ Error::Lost { .. }) = suspend(core, hold) {
            waiting.end(Intent::Pass);
            return Err(error);
        }
        // After a release without a reply, the watchdog releases the lock.
        let woken = waiting.sleep();
        if let Err(error) = self.resume(part, hold) {
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
    fn resume(&self, part: &Part, hold: &Arc<Hold>) -> Result<()> {
        let terms = hold.terms_to_resume().ok_or_else(|| hold.not_held())?;
        let core = &part.core;
        for acquired in self.lock_with_terms(core, terms)?.into_iter().flatten() {
            core.queue.resume(hold, &acquired.hold);
        }
        core.watchdog.reschedule(hold.grant().id());
        note_count(core, hold);
        Ok(())
    }

    /// Notifies waiters of a condition.
    pub(crate) fn notify(&self, condition: &str, notified: Notified) -> Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (part, hold) = self.own_hold()?;
        let keys = ConditionKeys::new(&part.key, condition)?;
        let core = &part.core;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let call = keys.notify(hold.grant().owner(), number, notified);
        let reply = core
            .redis
            .request(&part.key, call, &core.budget_to_unlock())
            .map_err(|no_reply| no_reply.error)?;
        let verdicts = verdicts(&reply.reply, 1);
        match verdicts.map_err(|error| core.redis.refusal(&part.key, error))?[..] {
            [Verdict::Lost(reason)] => Err(lose(part, &hold, reason)),
            _ => Ok(()),
        }
    }

    /// The part of a lock of one name, and the hold of this thread.
    fn own_hold(&self) -> Result<(&Part, Arc<Hold>)> {
        self.check_open()?;
        let part = self.list.first().ok_or_else(|| self.not_held())?;
        let hold = part.hold().ok_or_else(|| self.not_held())?;
        hold.check()?;
        let is_other_kind = hold.grant().kind().name != part.kind.name;
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
fn lose(part: &Part, hold: &Hold, reason: LostReason) -> Error {
    part.core.watchdog.forget(hold.grant().id());
    hold.lose(reason);
    hold.loss_error(reason)
}
