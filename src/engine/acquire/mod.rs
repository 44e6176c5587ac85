//! Acquires a lock: enters the local queue, requests what is missing, waits for a release, tries
//! again.
//!
//! | file | duty |
//! |---|---|
//! | `permit` | locks whose holds do not exclude each other: permits of semaphores |
//! | `own` | further levels of what this thread holds already |
//! | `begin` | begins holds: handed over, idle, or granted by Redis |
//! | `first` | the first request for a lock of one part |
//! | `acquisition` | what is requested and granted, and what is known of the other owners |
//! | `request` | sends the requests of one round |
//! | `replies` | evaluates the replies of one round |
//! | `give_up` | tells Redis that the thread does not wait any more |
//! | `line` | how a client that stands in a line waits |
//! | `turn` | the first steps of a round; leaves the lock to other clients after a release |
//! | `all`, `majority` | what follows a round, if all parts or a majority are needed |
//! | `observed` | the spans of waits and holds; counts failures |

mod acquisition;
mod all;
mod begin;
mod first;
mod give_up;
pub(in crate::engine) mod line;
mod majority;
mod observed;
mod own;
mod permit;
mod replies;
mod request;
mod turn;

use std::time::Duration;

use super::held::{HeldPart, Needed};
use super::local_wait::{give_up, wait_for_claim};
use super::parts::{LockCall, Missing, Parts};
use super::release::release_all;
use crate::base::interrupt::Interrupt;
use crate::base::list::List;
use crate::base::owner::ThreadId;
use crate::core::Core;
use crate::error::Result;
use crate::lease::{Lease, Terms};
use crate::local::{Claim, Hold};
use acquisition::Acquisition;
use begin::{TicketsLost, keep, take_without_request};
use first::First;
use own::{Own, add_levels, check_other, check_own};
use permit::acquire_permit;

impl Parts {
    /// Acquires the lock, or a further level of it. Fails if the interrupt is raised.
    pub(crate) fn lock_with(
        &self,
        lease: Lease,
        interrupt: Option<&Interrupt>,
    ) -> Result<List<HeldPart>> {
        let core = self.check_process()?;
        let budget = &self.to_acquire(core.budget_to_wait(None, interrupt));
        let call = self.call(core, budget);
        let until_acquired = || {
            loop {
                if let Some(held) = acquire(call, lease)? {
                    return Ok(held);
                }
            }
        };
        self.observed(core, |held| Some(held), until_acquired)
    }

    /// Acquires the lock, or a further level of it; `None` if `wait` ends first. Fails if the
    /// interrupt is raised.
    pub(crate) fn try_lock(
        &self,
        wait: Duration,
        lease: Lease,
        interrupt: Option<&Interrupt>,
    ) -> Result<Option<List<HeldPart>>> {
        let core = self.check_process()?;
        let budget = &self.to_acquire(core.budget_to_wait(Some(wait), interrupt));
        let call = self.call(core, budget);
        self.observed(core, Option::as_deref, || acquire(call, lease))
    }

    /// Acquires a lock that this thread does not hold, with these terms, for `core`, the client of
    /// its first part.
    pub(super) fn lock_with_terms(&self, core: &Core, terms: Terms) -> Result<List<HeldPart>> {
        let budget = &self.to_acquire(core.budget_to_wait(None, None));
        let call = self.call(core, budget);
        let missing: List<Missing<'_>> = self.list.iter().map(|part| (part, terms)).collect();
        let acquire = || {
            let locks = self.list.iter().map(|part| &part.id);
            let who = (ThreadId::current(), self.is_shared());
            let claim = core.queue.enter(locks, who, budget.started()).claim;
            acquire_missing(call, &missing, (claim, None))
        };
        let until_acquired = || {
            loop {
                if let Some(held) = acquire()? {
                    return Ok(held);
                }
            }
        };
        self.observed(core, |held| Some(held), until_acquired)
    }
}

/// Acquires a lock, or a further level of it; `None` if the budget ends first. Fails after a
/// shutdown, which ends the budget.
fn acquire(call: LockCall<'_>, lease: Lease) -> Result<Option<List<HeldPart>>> {
    let (parts, core, budget) = (call.parts, call.core, call.budget);
    budget.check_interrupt(parts.name())?;
    if !parts.is_exclusive() {
        return acquire_permit(call, lease);
    }
    if parts.list.len() > 1 {
        budget.share_grace();
    }
    let locks = parts.list.iter().map(|part| &part.id);
    let who = (ThreadId::current(), parts.is_shared());
    let entered = core.queue.enter(locks, who, budget.started());
    let mut own: List<Own<'_>> = List::new();
    let mut missing: List<Missing<'_>> = List::new();
    for (part, hold) in parts.list.iter().zip(entered.own) {
        let terms = lease.terms(part.core.watchdog_lease)?;
        match hold {
            Some(hold) => own.push((part, terms, hold)),
            None => missing.push((part, terms)),
        }
    }
    if own.is_empty() {
        let within = entered.other.as_deref();
        check_other(parts, within)?;
        return acquire_missing(call, &missing, (entered.claim, within));
    }
    check_own(parts, &mut own)?;
    let mut held = List::new();
    // A hold on a majority does not acquire further servers.
    if !missing.is_empty() && parts.needed == Needed::All {
        match acquire_missing(call, &missing, (entered.claim, None))? {
            Some(acquired) => held = acquired,
            None => return Ok(None),
        }
    }
    if let Err(error) = add_levels(parts, &own, budget, &mut held) {
        let rest = || budget.remaining(core.command_timeout);
        let _ = release_all(&held, Needed::Majority(held.len()), rest);
        return Err(error);
    }
    Ok(Some(held))
}

/// Acquires the parts that this thread does not hold. If this returns without them, the tickets go
/// to the next waiting threads of this process. `within` is the exclusive hold of this thread on
/// the lock of which it acquires a shared one.
fn acquire_missing(
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
        let mut acquisition = Acquisition::new(call, missing, claim);
        (acquisition.first, acquisition.within) = (first, within);
        if within.is_some() {
            // It does not wait for other clients.
            acquisition.place = None;
        }
        let is_granted = match parts.needed {
            Needed::All => acquisition.acquire_all(),
            Needed::Majority(_) => acquisition.acquire_majority(),
        };
        if let Ok(true) = is_granted {
            return Ok(Some(acquisition.keep()));
        }
        acquisition.undo();
        acquisition.give_up();
        return is_granted.map(|_| None);
    }
}
