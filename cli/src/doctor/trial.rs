//! Acquires, nests, extends and releases a lock, as programs do.

use std::time::Duration;

use super::finding::Finding;
use crate::clock::Moment;
use crate::outcome::in_options;
use leasehold::Lease;
use leasehold::LockClient;
use leasehold::{Error, Result};

const CHECK: &str = "lock";

/// Acquires the lock if it is free, uses it and releases it.
pub(super) fn lock(client: &LockClient, name: &str, lease: Duration) -> Finding {
    let start = Moment::now();
    match use_lock(client, name, lease) {
        Ok(true) => {
            let took = Moment::now().since(start);
            let found = format!("acquired, nested, extended and released in {took:.1?}");
            Finding::ok(CHECK, found)
        }
        Ok(false) => not_tried(&format!(
            "lock {name:?} is held by another client, and was not used"
        )),
        Err(Error::WrongType { .. }) => not_tried(&format!(
            "the key of lock {name:?} is not a lock, and was not used"
        )),
        Err(error) => {
            let advice = "look at the other checks, and at the log of the server";
            Finding::failure(CHECK, in_options(error), advice)
        }
    }
}

fn not_tried(why: &str) -> Finding {
    Finding::unknown(
        CHECK,
        format!("{why}: give another name, leasehold doctor KEY"),
    )
}

/// False if another client holds the lock. After an error the guards release it.
fn use_lock(client: &LockClient, name: &str, lease: Duration) -> Result<bool> {
    let lock = client.reentrant_lock(name);
    // It may be held as another kind of lock, which would be an error.
    if lock.is_locked()? {
        return Ok(false);
    }
    let Some(outer) = lock.try_acquire(Duration::ZERO, Lease::RENEWED)? else {
        return Ok(false);
    };
    let inner = lock.acquire()?;
    outer.extend(lease)?;
    inner.unlock()?;
    outer.check()?;
    outer.unlock()?;
    Ok(true)
}
