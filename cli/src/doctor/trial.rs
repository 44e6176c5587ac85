//! Acquires, nests, extends and releases a lock, as programs do.

use std::time::Duration;

use super::finding::{Finding, Verdict};
use crate::outcome;
use leasehold::__Moment as Moment;
use leasehold::{Error, Lease, LockClient, Result};

/// Acquires the lock if it is free, uses it and releases it.
pub(super) fn lock(client: &LockClient, name: &str, lease: Duration) -> Finding {
    let start = Moment::now();
    let why = match use_lock(client, name, lease) {
        Ok(Some(())) => {
            let took = Moment::now().since(start);
            let found = format!("acquired, nested, extended and released in {took:.1?}");
            return Verdict::Ok.of(found);
        }
        Ok(None) => format!("lock {name:?} is held by another client"),
        Err(Error::WrongType { .. }) => format!("the key of lock {name:?} is not a lock"),
        Err(error) => {
            let advice = "look at the other checks, and at the log of the server";
            return Verdict::Failure.advise(outcome::Failure::from(error).to_string(), advice);
        }
    };
    let found = format!("{why}, and was not used: give another name, leasehold doctor KEY");
    Verdict::Unknown.of(found)
}

/// `None` if another client holds the lock. After an error the guards release it.
fn use_lock(client: &LockClient, name: &str, lease: Duration) -> Result<Option<()>> {
    let lock = client.reentrant_lock(name);
    // It may be held as another kind of lock, which would be an error.
    if lock.is_locked()? {
        return Ok(None);
    }
    let Some(outer) = lock.try_acquire(Duration::ZERO, Lease::RENEWED)? else {
        return Ok(None);
    };
    let inner = lock.acquire()?;
    outer.extend(lease)?;
    inner.unlock()?;
    outer.check()?;
    outer.unlock().map(Some)
}
