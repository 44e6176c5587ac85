//! Acquires a lock: enters the local queue, requests what is missing, waits for a release, tries
//! again.
//!
//! | file | duty |
//! |---|---|
//! | `mod` | the calls, with their spans; which requests follow |
//! | `own` | further levels of what this thread holds already |
//! | `begin` | begins holds: handed over, idle, or granted by Redis |
//! | `acquisition` | what is requested and granted; undoes it and gives up; leaves it to others |
//! | `unit` | the parts that share one request; the first request; what undoes a request |
//! | `round` | one round of requests, and the replies |
//! | `line` | how a client that stands in a line waits |
//! | `all`, `majority` | what follows a round, if all parts or a majority are needed |

mod acquisition;
mod all;
mod begin;
pub(in crate::engine) mod line;
mod majority;
mod own;
mod round;
mod unit;

use std::time::Duration;

use super::held::{HeldPart, Needed};
use super::local_wait::wait_for_claim;
use super::parts::{LockCall, Missing, Parts};
use crate::base::interrupt::Interrupt;
use crate::base::list::List;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::local::{Claim, Hold};
use crate::observe::{Outcome, WaitSpan, are_spans_enabled};
use acquisition::Acquisition;
use begin::{TicketsLost, keep, take_without_request};
use own::{Own, acquire_levels, check_other};
use unit::Unit;

impl Parts {
    /// Acquires the lock, or a further level of it. Fails if the interrupt is raised.
    pub(crate) fn lock_with(
        &self,
        lease: Lease,
        interrupt: Option<&Interrupt>,
    ) -> Result<List<HeldPart>> {
        loop {
            // A wait without a limit is never over.
            if let Some(held) = self.lock_within(None, lease, interrupt)? {
                return Ok(held);
            }
        }
    }

    /// Acquires the lock, or a further level of it; `None` if `wait` ends first. Fails if the
    /// interrupt is raised.
    pub(crate) fn try_lock(
        &self,
        wait: Duration,
        lease: Lease,
        interrupt: Option<&Interrupt>,
    ) -> Result<Option<List<HeldPart>>> {
        self.lock_within(Some(wait), lease, interrupt)
    }

    fn lock_within(
        &self,
        wait: Option<Duration>,
        lease: Lease,
        interrupt: Option<&Interrupt>,
    ) -> Result<Option<List<HeldPart>>> {
        let core = self.check_process()?;
        let budget = &self.to_acquire(core.budget_to_wait(wait, interrupt));
        let span = self.begin_wait();
        let result = acquire(self.call(core, budget), lease);
        self.end_wait(span, core, result)
    }

    /// Begins the span of a call that acquires the lock.
    pub(in crate::engine) fn begin_wait(&self) -> WaitSpan {
        WaitSpan::enter(self.name(), self.type_name())
    }

    /// Ends the span of a call that acquires the lock, and counts a failure. Then begins the spans
    /// of the new holds, which are not within that of the wait.
    pub(in crate::engine) fn end_wait(
        &self,
        span: WaitSpan,
        core: &Core,
        result: Result<Option<List<HeldPart>>>,
    ) -> Result<Option<List<HeldPart>>> {
        let is_new = |part: &&HeldPart| part.level == Hold::FIRST_LEVEL;
        let outcome = Outcome::of(&result, |held| match held {
            Some(held) if held.iter().any(|part| is_new(&part)) => Outcome::ACQUIRED,
            Some(_) => Outcome::REENTERED,
            None => Outcome::TIMEOUT,
        });
        span.end(outcome);
        core.observer.count_failure(outcome);
        if are_spans_enabled() {
            let held = result.iter().flatten().flatten();
            for part in held.filter(is_new) {
                let node = part.core.node(part.hold.key());
                part.hold.begin_span(self.type_name(), &node);
            }
        }
        result
    }
}

/// Acquires a lock, or a further level of it; `None` if the budget ends first. Fails after a
/// shutdown, which ends the budget.
fn acquire(call: LockCall<'_>, lease: Lease) -> Result<Option<List<HeldPart>>> {
    let LockCall { parts, budget, .. } = call;
    budget.check_interrupt(parts.name())?;
    if !parts.kind().is_exclusive {
        return acquire_permit(call, lease);
    }
    if parts.list.len() > 1 {
        budget.share_grace();
    }
    let entered = call.enter_queue();
    let mut own: List<Own> = List::new();
    let mut missing: List<Missing<'_>> = List::new();
    for (part, hold) in parts.list.iter().zip(entered.own) {
        let terms = lease.terms(parts.name(), part.core.watchdog_lease)?;
        match hold {
            Some(hold) => own.push((HeldPart::first_level(&part.core, hold), terms)),
            None => missing.push((part, terms)),
        }
    }
    if !own.is_empty() {
        return acquire_levels(call, own, &missing, entered.claim);
    }
    let within = entered.other.as_deref();
    check_other(parts, within)?;
    acquire_missing(call, &missing, (entered.claim, within))
}

/// Acquires the parts that this thread does not hold. If this returns without them, the tickets go
/// to the next waiting threads of this process. `within` is the exclusive hold of this thread on
/// the lock of which it acquires a shared one.
pub(super) fn acquire_missing(
    call: LockCall<'_>,
    missing: &[Missing<'_>],
    (mut claim, within): (Option<Claim>, Option<&Hold>),
) -> Result<Option<List<HeldPart>>> {
    let LockCall { parts, budget, .. } = call;
    loop {
        let claim = match claim.take() {
            Some(claim) => Some(claim),
            None => wait_for_claim(call, missing, false)?,
        };
        let Some(mut claim) = claim else {
            return Ok(None);
        };
        if let Err(error) = budget.check_interrupt(parts.name()) {
            let units = Unit::of_parts(call, missing);
            Acquisition::new(call, missing, (units, claim), None).abandon();
            return Err(error);
        }
        // The watchdog has the grants that are taken, so a shutdown ends them. But this thread may
        // end idle grants, which it has to release in Redis, so a shutdown waits for that.
        let _ending = claim.has_grants().then(|| parts.begin_calls());
        match take_without_request(call, missing, &mut claim) {
            Ok(None) => {}
            Ok(held) => return Ok(held),
            // The next round waits in the local queue.
            Err(TicketsLost) => continue,
        }
        let _calls = parts.begin_calls();
        budget.check_interrupt(parts.name())?;
        let mut units = Unit::of_parts(call, missing);
        let mut first = None;
        // Before the first request, the thread may have to leave the lock to others, or to listen.
        let is_single = missing.len() == 1 && parts.needed == Needed::All;
        if is_single && claim.is_alone && missing[0].0.needs_no_listener() {
            first = units[0].request_first(budget);
            if first.is_none() {
                return Ok(Some(keep(call, claim, &units)));
            }
        }
        return Acquisition::new(call, missing, (units, claim), within).run(first);
    }
}

/// Acquires a permit; `None` if the budget ends first.
///
/// The first request needs no ticket, so the threads of a client send their first requests at the
/// same time, while no other client is known to wait. The ticket is the right to wait: one thread
/// of the client has its place in the line, and those behind it wait in the local queue. A thread
/// that waits is not passed by a thread that comes later and waits, too.
fn acquire_permit(call: LockCall<'_>, lease: Lease) -> Result<Option<List<HeldPart>>> {
    let (parts, core, budget) = (call.parts, call.core, call.budget);
    let terms = lease.terms(parts.name(), core.watchdog_lease)?;
    let missing: List<Missing<'_>> = parts.list.iter().map(|part| (part, terms)).collect();
    let may_pass = budget.is_wait_over();
    let queue = &core.queue;
    if let Some(claim) = queue.claim_without_ticket(&parts.list[0].id, may_pass) {
        let at_once = budget.without_wait();
        let _calls = parts.begin_calls();
        budget.check_interrupt(parts.name())?;
        let call = parts.call(core, &at_once);
        let mut acquisition = {
            let units = Unit::of_parts(call, &missing);
            Acquisition::new(call, &missing, (units, claim), None)
        };
        acquisition.place = None;
        acquisition.leaves_reserved = !may_pass;
        let is_granted = acquisition.acquire_all(None);
        if let Ok(true) = is_granted {
            return Ok(Some(acquisition.keep()));
        }
        acquisition.undo();
        let has_time = !budget.is_wait_over()
            && !at_once.call_deadline().is_past()
            && !at_once.reply_deadline().is_past();
        match is_granted {
            // The call has time for further requests. It is unavailable if the reply took longer
            // than the lease.
            Ok(_) | Err(Error::TooFewReplicas { .. } | Error::Unavailable { .. }) if has_time => {}
            result => return result.map(|_| None),
        }
    }
    acquire_missing(call, &missing, (call.enter_queue().claim, None))
}
