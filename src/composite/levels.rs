//! Further levels of the locks of a composite that a thread holds already.

use std::sync::Arc;

use super::held::extend;
use super::needed::combine;
use super::{Call, Composite};
use crate::engine::{HeldLock, SingleLock, check_tokens, push_level};
use crate::error::{Error, Result};
use crate::lease::Terms;
use crate::local::Hold;

/// A lock that this thread holds, and the terms of its new level.
pub(super) struct Own<'a> {
    pub(super) lock: &'a SingleLock,
    pub(super) hold: Arc<Hold>,
    pub(super) terms: Terms,
}

/// Too few levels were added: these.
pub(super) struct TooFew {
    pub(super) added: Vec<HeldLock>,
    pub(super) error: Error,
}

/// Removes the holds that are lost. Fails if those that are left are fewer than `needed`.
pub(super) fn check(composite: &Composite, own: &mut Vec<Own<'_>>, needed: usize) -> Result<()> {
    if own.len() < needed {
        return Err(composite.held_otherwise());
    }
    // Each hold is checked once: it may be lost between two checks.
    let checks: Vec<Result<()>> = own.iter().map(|own| own.hold.check()).collect();
    let mut next = checks.iter();
    own.retain(|_| next.next().is_some_and(Result::is_ok));
    combine(checks.into_iter(), needed)?;
    own.iter()
        .try_for_each(|own| check_tokens(own.lock, &own.hold))
}

/// Adds a level to each of these holds, of which `needed` are needed. Redis is asked only for those
/// whose lease has to be longer.
pub(super) fn add(
    call: Call<'_>,
    own: Vec<Own<'_>>,
    needed: usize,
) -> std::result::Result<Vec<HeldLock>, TooFew> {
    let mut added = Vec::new();
    if let Err(error) = extend_short(call, &own) {
        return Err(TooFew { added, error });
    }
    let add = |Own { lock, hold, terms }: Own<'_>| {
        added.push(push_level(lock, hold, terms)?);
        Ok(())
    };
    let results: Vec<Result<()>> = own.into_iter().map(add).collect();
    match combine(results.into_iter(), needed) {
        Ok(()) => Ok(added),
        Err(error) => Err(TooFew { added, error }),
    }
}

/// Extends the leases that do not cover the new levels.
fn extend_short(call: Call<'_>, own: &[Own<'_>]) -> Result<()> {
    let short = own.iter().filter(|own| !own.hold.covers(own.terms));
    let level = |own: &Own<'_>| HeldLock::first(&own.lock.core, Arc::clone(&own.hold));
    let short: Vec<(HeldLock, u64)> = short.map(|own| (level(own), own.terms.millis)).collect();
    if short.is_empty() {
        return Ok(());
    }
    let covered = own.len() - short.len();
    let needed = call.composite.needed.less(covered);
    let short: Vec<(&HeldLock, u64)> = short
        .iter()
        .map(|(level, millis)| (level, *millis))
        .collect();
    extend(&short, needed, call.budget)
}
