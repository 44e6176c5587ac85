//! Further levels of the holds that this thread has already.

use super::acquire_missing;
use crate::base::call_budget::CallBudget;
use crate::base::list::List;
use crate::engine::held::{HeldPart, Needed, combine, misused, note_level, retain_ok};
use crate::engine::parts::{LockCall, Missing, Parts};
use crate::engine::release::release_all;
use crate::engine::renew::extend_all;
use crate::error::{Error, Result};
use crate::lease::Terms;
use crate::local::{Claim, Hold};

/// A part that this thread holds, and the terms of its new level.
pub(super) type Own = (HeldPart, Terms);

/// Fails if the hold that this thread has on the other lock of a read-write lock is lost, and if it
/// is a shared one: an exclusive hold would wait for it.
pub(super) fn check_other(parts: &Parts, other: Option<&Hold>) -> Result<()> {
    let Some(other) = other else {
        return Ok(());
    };
    other.check()?;
    if other.is_shared() {
        let lock = parts.name().into();
        return Err(Error::Upgrade { lock });
    }
    Ok(())
}

/// Acquires the `missing` parts, and adds a level to the holds that this thread has.
pub(super) fn acquire_levels(
    call: LockCall<'_>,
    mut own: List<Own>,
    missing: &[Missing<'_>],
    claim: Option<Claim>,
) -> Result<Option<List<HeldPart>>> {
    let LockCall { parts, budget, .. } = call;
    let needed = parts.needed.of(own.len());
    check_own(parts, &mut own, needed)?;
    let mut held = List::new();
    // A hold on a majority does not acquire further servers.
    if !missing.is_empty() && parts.needed == Needed::All {
        match acquire_missing(call, missing, (claim, None))? {
            Some(acquired) => held = acquired,
            None => return Ok(None),
        }
    }
    if let Err(error) = add_levels(call, (own, needed), &mut held) {
        let rest = || budget.remaining(call.core.command_timeout);
        let _ = release_all(&held, Needed::Majority(held.len()), rest);
        return Err(error);
    }
    Ok(Some(held))
}

/// Removes the holds that are lost. Fails if those that are left are not enough.
fn check_own(parts: &Parts, own: &mut List<Own>, needed: usize) -> Result<()> {
    if own.len() < needed {
        return Err(parts.held_otherwise());
    }
    retain_ok(own, |(part, _)| part.hold.check(), needed)?;
    let mut own = own.iter().map(|(part, _)| &part.hold);
    match own.find(|hold| hold.token().is_none()) {
        Some(hold) if parts.kind().has_tokens => {
            let rule = "this thread holds it as a lock without a token; use one kind of lock per \
                        name";
            Err(misused(hold.key().name(), rule))
        }
        _ => Ok(()),
    }
}

/// Adds a level to each of these holds of this thread, of which `needed` are needed. Redis is asked
/// only for those whose lease has to be longer.
fn add_levels(
    LockCall { parts, budget, .. }: LockCall<'_>,
    (own, needed): (List<Own>, usize),
    held: &mut List<HeldPart>,
) -> Result<()> {
    extend_short(parts, &own, budget)?;
    let add = |(part, terms): Own| {
        // This thread may have waited for other parts, and a lease may have run out meanwhile.
        part.hold.check()?;
        let level = part.hold.push(terms)?;
        note_level(&part.core, &part.hold);
        part.core.observer.counters.reentries.add(1);
        held.push(HeldPart { level, ..part });
        Ok(())
    };
    let added: List<Result<()>> = own.into_iter().map(add).collect();
    combine(added.into_iter(), needed)
}

/// Extends the leases of the parts that do not cover these terms.
fn extend_short(parts: &Parts, own: &[Own], budget: &CallBudget) -> Result<()> {
    let short = own.iter().filter(|(part, terms)| !part.hold.covers(*terms));
    let short: List<(&HeldPart, u64)> = short.map(|(part, terms)| (part, terms.millis)).collect();
    let covered = own.len() - short.len();
    let needed = match parts.needed {
        Needed::All => Needed::All,
        Needed::Majority(needed) => Needed::Majority(needed.saturating_sub(covered)),
    };
    match short.is_empty() {
        true => Ok(()),
        false => extend_all(&short, needed, budget),
    }
}
