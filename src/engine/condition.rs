//! Waits on a condition of a lock, and notifications. The protocol is described in
//! `protocol/condition.rs`. A waiting thread has a place in the queue of the condition.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;
use std::time::Duration;

use super::grant_request::{note_count, request_about_grant};
use super::wait::polls;
use super::{Channel, LockCall, Release, SingleLock, Wait, end_wait, repeat_until_done};
use crate::base::{CallBudget, Interrupt, LockKey, Moment, OwnerId};
use crate::core::Core;
use crate::error::{Error, LostReason, Result};
use crate::local::{Hold, Place, PlaceEnd, Unlocks};
use crate::observe::{WaitOutcome, WaitSpan};
use crate::protocol::message::Filter;
use crate::protocol::{ConditionKeys, EndedPlace, Intent, Notified, Verdict, ended, verdicts};
use crate::request::{LostCopies, NoReply};
use crate::script::Call;
use crate::watchdog::Renew;

/// How long a place lasts without a renewal: the lease of the client's locks, but within these
/// bounds. So a process that dies loses its place within seconds.
const SHORTEST_PLACE: Duration = Duration::from_secs(1);
const LONGEST_PLACE: Duration = Duration::from_secs(10);

impl SingleLock {
    /// Unlocks all levels of this thread, waits for a notification for at most `wait`, and acquires
    /// the lock again with the same levels. False if the time was over before a notification.
    pub(crate) fn wait_on(
        &self,
        condition: &str,
        wait: Duration,
        interrupt: Option<&Interrupt>,
    ) -> Result<bool> {
        let hold = self.own_hold()?;
        let span = WaitSpan::enter(self.name(), "condition");
        // Until the place has ended.
        let _call = self.core.watchdog.delay_shutdown();
        let budget = self.core.budget_to_wait(Some(wait), interrupt);
        let result = self.wait_with(&hold, condition, &self.until_shutdown(budget));
        span.end(WaitOutcome::of_wait(&result));
        result
    }

    /// Enters the queue, releases the lock, sleeps, acquires the lock again, and leaves the queue.
    fn wait_with(
        &self,
        hold: &Arc<Hold>,
        condition: &str,
        budget: &CallBudget<'_>,
    ) -> Result<bool> {
        let core = &self.core;
        let keys = ConditionKeys::new(&self.key, condition)?;
        budget.check_interrupt(self.name())?;
        let waiter = ConditionWaiter::new(core, keys, budget);
        // Before the release, because only a thread that holds the lock notifies.
        let (place, lost_copies) = waiter.enter(&self.key, hold)?;
        let mut wait = Wait::new(budget, polls());
        // With a subscription before the release, no message is missed.
        wait.listen_if_live(waiter.channel());
        let release = Release::begin(core, hold, Unlocks::Suspends, core.linger);
        if let Err(error @ Error::Lost { .. }) = release.run(|| core.budget_to_unlock()) {
            waiter.end(&place, Intent::Pass, false, lost_copies);
            return Err(error);
        }
        // After any other error the thread waits: the watchdog releases the lock.
        let woken = waiter.sleep(wait, &place);
        // From now on the place is kept until this thread has the lock, so that a notification of
        // the meantime is not lost.
        core.watchdog.forget(place.id());
        let place = waiter.watch(place.confirmed(), false);
        let held = self.resume_or_abandon(hold);
        // Only now: the reply says whether the waiter was notified while it acquired the lock.
        let intent = held.as_ref().map_or(Intent::Pass, |()| Intent::Take);
        let ended = waiter.end(&place, intent, woken == Woken::Notified, lost_copies);
        held?;
        // The lock may have been lost during the request that ended the place.
        hold.check()?;
        match (woken, ended) {
            (Woken::TimedOut, Some(EndedPlace::NotNotified)) => Ok(false),
            (Woken::Interrupted, Some(EndedPlace::NotNotified)) => Err(Error::Interrupted {
                lock: self.name().into(),
            }),
            // Notified, or not known: then it is a spurious wake-up.
            _ => Ok(true),
        }
    }

    /// Acquires the lock again. If that fails, the hold has ended.
    fn resume_or_abandon(&self, hold: &Arc<Hold>) -> Result<()> {
        let resumed = self.resume(hold);
        if let Err(error) = &resumed {
            let is_shut_down = matches!(error, Error::ShutDown { .. });
            hold.abandon(is_shut_down.then_some(LostReason::ShutDown));
        }
        resumed.and_then(|()| hold.check())
    }

    /// Acquires the lock again for a suspended hold, which then continues.
    fn resume(&self, hold: &Arc<Hold>) -> Result<()> {
        let core = &self.core;
        let terms = hold.terms_to_resume().ok_or_else(|| hold.not_held())?;
        let budget = &self.to_acquire(core.budget_to_wait(None, None));
        let call = LockCall::of_one(self, terms, budget);
        let span = WaitSpan::enter(self.name(), self.kind.name);
        let claim = self.enter_queue(call.begun).claim;
        let result = call.acquire_first_level(claim, None);
        let acquired = end_wait(span, core, self.kind.name, result, Option::as_slice)?;
        let acquired = acquired.ok_or_else(|| hold.not_held())?;
        core.queue.resume(hold, &acquired.hold);
        core.watchdog.reschedule(hold.grant().id());
        note_count(core, hold);
        Ok(())
    }

    /// Notifies waiters of a condition.
    pub(crate) fn notify(&self, condition: &str, notified: Notified) -> Result<()> {
        let Self { core, key, .. } = self;
        let hold = self.own_hold()?;
        let keys = ConditionKeys::new(key, condition)?;
        let call = keys.notify(hold.grant().owner(), notified);
        let budget = core.budget_to_unlock();
        match request_about_grant(core, key, call, &budget)?.verdict {
            Verdict::Lost(reason) => Err(lose(core, &hold, reason)),
            Verdict::Done { .. } => Ok(()),
        }
    }

    /// The hold of this thread.
    fn own_hold(&self) -> Result<Arc<Hold>> {
        self.check_open()?;
        let hold = self.hold().ok_or_else(|| self.not_held())?;
        hold.check()?;
        let is_other_kind = hold.grant().kind != self.kind;
        if is_other_kind || hold.is_of_majority() {
            let rule = "this thread holds it as another kind of lock; use one kind of lock per \
                        name";
            return Err(Error::misused(self.name(), rule));
        }
        Ok(hold)
    }
}

/// Ends a hold whose lock Redis does not have any more. Returns the error of the loss.
fn lose(core: &Core, hold: &Hold, reason: LostReason) -> Error {
    core.watchdog.forget(hold.grant().id());
    hold.lose(reason);
    hold.loss_error(reason)
}

/// Why a thread does not wait for a notification any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// It was notified, or its place is gone: Redis or a message says so.
    Notified,
    /// Its place may be gone, because no renewal was confirmed in time.
    Unconfirmed,
    TimedOut,
    Interrupted,
}

/// A thread that waits on a condition.
struct ConditionWaiter<'a> {
    core: &'a Core,
    budget: &'a CallBudget<'a>,
    keys: ConditionKeys,
    /// The lock, with the channel on which this client hears of notifications.
    key: LockKey,
    /// How Redis knows it.
    id: OwnerId,
    /// How long its place lasts without a renewal.
    lasts: Duration,
}

impl<'a> ConditionWaiter<'a> {
    fn new(core: &'a Core, keys: ConditionKeys, budget: &'a CallBudget<'a>) -> Self {
        Self {
            key: keys.heard_by(&core.owner_prefix),
            id: OwnerId::new(&core.owner_prefix),
            lasts: core.watchdog_lease.clamp(SHORTEST_PLACE, LONGEST_PLACE),
            core,
            budget,
            keys,
        }
    }

    /// The channel of the client. Messages have the numbers of the waiters that they notify.
    fn channel(&self) -> Channel<'_> {
        Channel {
            filter: self.id.number().map_or(Filter::All, Filter::Number),
            ..Channel::of(self.core, &self.key)
        }
    }

    /// Puts the thread, which has this hold, into the queue. Returns its place, and the copies of
    /// the request that Redis may still execute.
    fn enter(&self, key: &LockKey, hold: &Hold) -> Result<(Arc<Place>, LostCopies)> {
        let redis = &self.core.redis;
        let call = self.keys.wait(hold.grant().owner(), &self.id, self.lasts);
        let request = redis.request(key, call, &self.core.budget_to_unlock());
        let (error, lost_copies) = match request {
            Ok(reply) => match verdicts(&reply.reply, 1).as_deref() {
                Ok([Verdict::Lost(reason)]) => (lose(self.core, hold, *reason), reply.lost_copies),
                Ok(_) => return Ok((self.watch(reply.asked, true), reply.lost_copies)),
                Err(error) => (redis.refusal(key, error.clone()), reply.lost_copies),
            },
            Err(NoReply { error, lost_copies }) => (*error, lost_copies),
        };
        if lost_copies.is_ambiguous() {
            let end = self.keys.end(&self.id, Intent::Pass);
            lost_copies.compensate(&end);
            self.end_later(end);
        }
        Err(error)
    }

    /// A place that the watchdog renews. `is_waiting` is false once its thread need not wait for a
    /// notification.
    fn watch(&self, asked: Moment, is_waiting: bool) -> Arc<Place> {
        let renewal = self.keys.renew(&self.id, self.lasts, is_waiting);
        let (key, unparker) = (self.key.clone(), self.budget.unparker().clone());
        let place = Arc::new(Place::new(key, renewal, self.lasts, asked, unparker));
        // After a shutdown no renewal is needed: the thread does not wait.
        let (target, due) = (Arc::clone(&place) as _, place.schedule().due);
        let _ = self.core.watchdog.watch(place.id(), target, due);
        place
    }

    /// Lets the watchdog end the place by this call, until it has ended by itself.
    fn end_later(&self, end: Call) {
        let (key, until) = (self.key.clone(), Moment::now().after(self.lasts));
        self.core.watchdog.release_orphan(key, end, until);
    }

    /// Sleeps until the thread need not wait for a notification any more.
    fn sleep<'w>(&'w self, mut wait: Wait<'w>, place: &Place) -> Woken {
        let channel = self.channel();
        // A subscription has begun or has ended, so a message may have been missed.
        let mut may_have_missed = false;
        let woken = repeat_until_done(self.budget, channel.key.name(), || {
            let woken = self.woken(place);
            if woken.is_none() && std::mem::take(&mut may_have_missed) {
                self.confirm(place);
            } else if woken.is_none() {
                let is_live = wait.listen(&[channel]) > 0;
                may_have_missed = wait.sleep(is_live, Duration::MAX) || !is_live;
            }
            Ok(woken.map_or(Continue(()), Break))
        });
        // A notification counts even if there is an interrupt, too.
        woken.unwrap_or_else(|_| self.woken(place).unwrap_or(Woken::Interrupted))
    }

    /// Why the thread need not wait; `None` if it has to.
    fn woken(&self, place: &Place) -> Option<Woken> {
        if self.budget.take_message() {
            return Some(Woken::Notified);
        }
        match place.end() {
            Some(PlaceEnd::Told) => Some(Woken::Notified),
            Some(PlaceEnd::Unconfirmed) => Some(Woken::Unconfirmed),
            None if self.budget.is_interrupted() => Some(Woken::Interrupted),
            None => self.budget.is_wait_over().then_some(Woken::TimedOut),
        }
    }

    /// Asks Redis whether the thread still has to wait.
    fn confirm(&self, place: &Place) {
        let core = self.core;
        let budget = core.budget_for_a_reply();
        match request_about_grant(core, &self.key, place.call().clone(), &budget) {
            Ok(reply) if reply.verdict.is_done() => {
                place.confirm(reply.asked);
                core.watchdog.reschedule(place.id());
            }
            Ok(_) => place.told(),
            Err(_) => {}
        }
    }

    /// Ends the place. Returns what the waiter was; `None` without a reply. Then the place is ended
    /// in the background, when its thread does not wait any more. A notification of the meantime is
    /// passed on. If `is_notified`, Redis or a message said that the thread need not wait: a
    /// request to end its place may take the notification, however late.
    fn end(
        &self,
        place: &Place,
        intent: Intent,
        is_notified: bool,
        lost_copies: LostCopies,
    ) -> Option<EndedPlace> {
        let core = self.core;
        // Before the request, so that no renewal follows it.
        core.watchdog.forget(place.id());
        let end = self.keys.end(&self.id, intent);
        let pass = self.keys.end(&self.id, Intent::Pass);
        let budget = core.budget_for_a_reply();
        let reply = core.redis.request(&self.key, end.clone(), &budget);
        let ended = reply.ok().and_then(|reply| ended(&reply.reply).ok());
        // A late copy makes a place whose thread does not wait.
        lost_copies.compensate(&pass);
        if ended.is_none() {
            self.end_later(if is_notified { end } else { pass });
        }
        ended
    }
}
