//! Further levels of the locks of a composite that a thread holds already.

use std::sync::Arc;

use super::held::extend;
use super::needed::combine;
use super::{Composite, CompositeCall};
use crate::engine::{HeldLock, SingleLock, check_tokens, push_level};
use crate::error::Result;
use crate::lease::Terms;
use crate::local::Hold;

/// A lock that this thread holds, and the terms of its new level.
pub(super) struct Own<'a> {
    pub(super) lock: &'a SingleLock,
    pub(super) hold: Arc<Hold>,
    pub(super) terms: Terms,
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

/// Adds a level to each of these holds, of which `needed` are needed, and puts it into `held`, also
/// if they are too few. Redis is asked only for those whose lease has to be longer.
pub(super) fn add(
    call: CompositeCall<'_>,
    own: Vec<Own<'_>>,
    needed: usize,
    held: &mut Vec<HeldLock>,
) -> Result<()> {
    extend_short(call, &own)?;
    let add = |Own { lock, hold, terms }: Own<'_>| {
        held.push(push_level(lock, hold, terms)?);
        Ok(())
    };
    let results: Vec<Result<()>> = own.into_iter().map(add).collect();
    combine(results.into_iter(), needed)
}

/// Extends the leases that do not cover the new levels.
fn extend_short(call: CompositeCall<'_>, own: &[Own<'_>]) -> Result<()> {
    let short = own.iter().filter(|own| !own.hold.covers(own.terms));
    let level = |own: &Own<'_>| HeldLock::first(&own.lock.core, Arc::clone(&own.hold));
    let levels: Vec<(HeldLock, u64)> = short.map(|own| (level(own), own.terms.millis)).collect();
    if levels.is_empty() {
        return Ok(());
    }
    let covered = own.len() - levels.len();
    let needed = call.composite.needed.less(covered);
    let levels = levels.iter().map(|(level, millis)| (level, *millis));
    let levels: Vec<_> = levels.collect();
    extend(&levels, needed, call.budget)
}
