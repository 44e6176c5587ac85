//! A lock from its beginning to its end, as every program has it.

use std::time::Duration;

use super::LEASE;
use super::finding::Finding;
use crate::clock::Moment;
use crate::outcome::in_options;
use leasehold::Lease;
use leasehold::LockClient;
use leasehold::{Error, Result};

const CHECK: &str = "lock";

/// Takes the lock if nobody holds it, uses it and gives it back.
pub(super) fn lock(client: &LockClient, name: &str) -> Finding {
    let start = Moment::now();
    match go_round(client, name) {
        Ok(true) => {
            let took = Moment::now().since(start);
            let found = format!("taken, nested, extended and given back in {took:.1?}");
            Finding::ok(CHECK, found)
        }
        Ok(false) => not_tried(&format!(
            "lock {name:?} is held by somebody else, and left alone"
        )),
        Err(Error::WrongType { .. }) => not_tried(&format!(
            "the key of lock {name:?} is no lock, and left alone"
        )),
        Err(error) => {
            let advice = "see the other checks, and the server's log";
            Finding::failure(CHECK, in_options(error), advice)
        }
    }
}

fn not_tried(why: &str) -> Finding {
    Finding::unknown(CHECK, format!("{why}: name another, leasehold doctor KEY"))
}

/// False if somebody else holds it. Whatever goes wrong, the guards give back what they have.
fn go_round(client: &LockClient, name: &str) -> Result<bool> {
    let lock = client.reentrant_lock(name);
    let Some(outer) = lock.try_acquire(Duration::ZERO, Lease::RENEWED)? else {
        return Ok(false);
    };
    let inner = lock.acquire()?;
    outer.extend(LEASE)?;
    inner.unlock()?;
    outer.check()?;
    outer.unlock()?;
    Ok(true)
}
