//! A further level of the hold that this thread has already.

use std::sync::Arc;

use crate::base::CallBudget;
use crate::engine::grant_request::note_level;
use crate::engine::held_lock::HeldLock;
use crate::engine::single_lock::SingleLock;
use crate::error::{Error, Result};
use crate::lease::Terms;
use crate::local::Hold;

/// Fails if the hold that this thread has on the other lock of a read-write lock is lost, and if it
/// is a shared one: an exclusive hold would wait for it.
pub(super) fn check_other(lock: &SingleLock, other: Option<&Hold>) -> Result<()> {
    let Some(other) = other else {
        return Ok(());
    };
    other.check()?;
    if other.is_shared() {
        let lock = lock.name().into();
        return Err(Error::Upgrade { lock });
    }
    Ok(())
}

/// Fails if the thread holds the lock as a kind without tokens, and `lock` has tokens.
pub(crate) fn check_tokens(lock: &SingleLock, hold: &Hold) -> Result<()> {
    if lock.kind.has_tokens && hold.token().is_none() {
        let rule = "this thread holds it as a lock without a token; use one kind of lock per name";
        return Err(Error::misused(lock.name(), rule));
    }
    Ok(())
}

/// Adds a level to the hold of this thread. Redis is asked only if the lease has to be longer.
pub(super) fn add_level(
    lock: &SingleLock,
    hold: Arc<Hold>,
    terms: Terms,
    budget: &CallBudget,
) -> Result<HeldLock> {
    hold.check()?;
    check_tokens(lock, &hold)?;
    let held = HeldLock::first(&lock.core, hold);
    if !held.hold.covers(terms) {
        held.extend(terms.millis, budget)?;
    }
    push_level(lock, held.hold, terms)
}

/// Adds a level to a hold whose lease is long enough for it.
pub(crate) fn push_level(lock: &SingleLock, hold: Arc<Hold>, terms: Terms) -> Result<HeldLock> {
    // A lease may have run out meanwhile.
    hold.check()?;
    let level = hold.push(terms)?;
    note_level(&lock.core, &hold);
    lock.core.observer.counters.reentries.add(1);
    Ok(HeldLock {
        core: Arc::clone(&lock.core),
        hold,
        level,
    })
}
