//! Further levels of the holds that this thread has already.

use std::sync::Arc;

use super::acquire_missing;
use crate::base::call_budget::CallBudget;
use crate::base::list::List;
use crate::engine::held::{HeldPart, Needed, note_count, reschedule_if_earlier};
use crate::engine::parts::{LockCall, Missing, Part, Parts};
use crate::engine::release::release_all;
use crate::engine::renew::extend_all;
use crate::error::{Error, Result};
use crate::lease::Terms;
use crate::local::{Claim, Hold};

/// A part that this thread holds, and the terms of the new level.
pub(super) type Own<'a> = (&'a Part, Terms, Arc<Hold>);

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
    mut own: List<Own<'_>>,
    missing: &[Missing<'_>],
    claim: Option<Claim>,
) -> Result<Option<List<HeldPart>>> {
    let LockCall { parts, budget, .. } = call;
    check_own(parts, &mut own)?;
    let mut held = List::new();
    // A hold on a majority does not acquire further servers.
    if !missing.is_empty() && parts.needed == Needed::All {
        match acquire_missing(call, missing, (claim, None))? {
            Some(acquired) => held = acquired,
            None => return Ok(None),
        }
    }
    if let Err(error) = add_levels(parts, &own, budget, &mut held) {
        let rest = || budget.remaining(call.core.command_timeout);
        let _ = release_all(&held, Needed::Majority(held.len()), rest);
        return Err(error);
    }
    Ok(Some(held))
}

/// Removes the holds that are lost. Fails if those that are left are not enough.
fn check_own(parts: &Parts, own: &mut List<Own<'_>>) -> Result<()> {
    let needed = parts.needed.of(own.len());
    if own.len() < needed {
        return Err(parts.held_otherwise());
    }
    let mut lost = None;
    own.retain(|(.., hold)| match hold.check() {
        Ok(()) => true,
        Err(error) => {
            lost.get_or_insert(error);
            false
        }
    });
    if own.len() < needed {
        return Err(lost.unwrap_or_else(|| parts.not_held()));
    }
    for (part, _, hold) in own {
        if part.kind.has_tokens && hold.token().is_none() {
            return Err(Error::Config {
                field: "name",
                value: format!("{:?}", hold.key().name()),
                rule: "this thread holds it as a lock without a token; use one kind of lock per \
                       name"
                    .into(),
            });
        }
    }
    Ok(())
}

/// Adds a level to each of this thread's holds. Redis is asked only for those whose lease has to be
/// longer.
fn add_levels(
    parts: &Parts,
    own: &[Own<'_>],
    budget: &CallBudget,
    held: &mut List<HeldPart>,
) -> Result<()> {
    let level = |(part, terms, hold): &Own<'_>| {
        let core = Arc::clone(&part.core);
        let (hold, level) = (Arc::clone(hold), Hold::FIRST_LEVEL);
        (HeldPart { core, hold, level }, *terms)
    };
    let levels: List<(HeldPart, Terms)> = own.iter().map(level).collect();
    extend_short(parts, &levels, budget)?;
    // This thread may have waited for other parts, and a lease may have run out meanwhile.
    let has_waited = !held.is_empty();
    let mut failure = None;
    let mut added = 0;
    for (part, terms) in levels {
        let check = match has_waited {
            true => part.hold.check(),
            false => Ok(()),
        };
        match check.and_then(|()| part.hold.push(terms)) {
            Ok(level) => {
                reschedule_if_earlier(&part.core, &part.hold.grant());
                note_count(&part.core, &part.hold);
                part.core.observer.counters.reentries.add(1);
                held.push(HeldPart { level, ..part });
                added += 1;
            }
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if added < parts.needed.of(own.len()) => Err(error),
        _ => Ok(()),
    }
}

/// Extends the leases of the parts that do not cover these terms.
fn extend_short(parts: &Parts, levels: &[(HeldPart, Terms)], budget: &CallBudget) -> Result<()> {
    let is_short = |(part, terms): &&(HeldPart, Terms)| !part.hold.covers(*terms);
    let short = levels.iter().filter(is_short);
    let short: List<(&HeldPart, u64)> = short.map(|(part, terms)| (part, terms.millis)).collect();
    if short.is_empty() {
        return Ok(());
    }
    let covered = levels.len() - short.len();
    let needed = match parts.needed {
        Needed::All => Needed::All,
        Needed::Majority(needed) => Needed::Majority(needed.saturating_sub(covered)),
    };
    extend_all(&short, needed, budget)
}
