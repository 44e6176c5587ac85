//! Acquires a lock: enters the local queue, requests what is missing, waits for a release, tries
//! again.
//!
//! | file | duty |
//! |---|---|
//! | `permit` | locks whose holds do not exclude each other: permits of semaphores |
//! | `own` | further levels of what this thread holds already |
//! | `begin` | begins holds: handed over, idle, or granted by Redis |
//! | `first` | the first request for a lock of one part |
//! | `acquisition` | what is requested and granted; keeps it, or undoes it and gives up |
//! | `round` | one round of requests; leaves the lock to other clients after a release |
//! | `replies` | evaluates the replies of one round |
//! | `line` | how a client that stands in a line waits |
//! | `all`, `majority` | what follows a round, if all parts or a majority are needed |
//! | `observed` | the spans of waits and holds; counts failures |

mod acquisition;
mod all;
mod begin;
mod first;
pub(in crate::engine) mod line;
mod majority;
mod observed;
mod own;
mod permit;
mod replies;
mod round;

use std::time::Duration;

use super::held::HeldPart;
use super::local_wait::{give_up, wait_for_claim};
use super::parts::{LockCall, Missing, Parts};
use crate::base::interrupt::Interrupt;
use crate::base::list::List;
use crate::error::Result;
use crate::lease::Lease;
use crate::local::{Claim, Hold};
use acquisition::Acquisition;
use begin::{TicketsLost, keep, take_without_request};
use first::First;
use own::{Own, acquire_levels, check_other};
use permit::acquire_permit;

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
}

/// Acquires a lock, or a further level of it; `None` if the budget ends first. Fails after a
/// shutdown, which ends the budget.
fn acquire(call: LockCall<'_>, lease: Lease) -> Result<Option<List<HeldPart>>> {
    let LockCall { parts, budget, .. } = call;
    budget.check_interrupt(parts.name())?;
    if !parts.is_exclusive() {
        return acquire_permit(call, lease);
    }
    if parts.list.len() > 1 {
        budget.share_grace();
    }
    let entered = call.enter_queue();
    let mut own: List<Own<'_>> = List::new();
    let mut missing: List<Missing<'_>> = List::new();
    for (part, hold) in parts.list.iter().zip(entered.own) {
        let terms = lease.terms(part.core.watchdog_lease)?;
        match hold {
            Some(hold) => own.push((part, terms, hold)),
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
        let mut claim = match claim.take() {
            Some(claim) => claim,
            None => match wait_for_claim(call, missing)? {
                Some(claim) => claim,
                None => return Ok(None),
            },
        };
        if let Err(error) = budget.check_interrupt(parts.name()) {
            give_up(claim, missing);
            return Err(error);
        }
        // The watchdog has the grants that are taken, so a shutdown ends them. Only idle grants
        // that this thread ends, and has to release in Redis, need a call.
        let _ending = claim.may_end_grants().then(|| parts.begin_calls());
        match take_without_request(call, missing, &mut claim) {
            Ok(None) => {}
            Ok(held) => return Ok(held),
            // The next round waits in the local queue.
            Err(TicketsLost) => continue,
        }
        let _calls = parts.begin_calls();
        budget.check_interrupt(parts.name())?;
        let first = First::request(call, missing, &claim);
        if let Some(granted) = first.as_ref().and_then(|first| first.granted(&missing[0])) {
            return Ok(Some(keep(call, claim, [(missing[0].0, granted)])));
        }
        return Acquisition::new(call, missing, claim, within).run(first);
    }
}
