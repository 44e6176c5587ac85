//! A server that a test makes unavailable, or slow.

use super::{LEASE, assert_unavailable, start};
use crate::support::prelude::*;

#[test]
fn a_lock_is_lost_when_the_server_is_unavailable_for_longer_than_its_lease() {
    let redis = start();
    let client = redis.client().unwrap();
    let guard = client.reentrant_lock("job").acquire().unwrap();
    redis.set_available(false);
    redis.advance(LEASE / 3 * 2);
    guard.check().unwrap();
    redis.set_available(true);
    redis.advance(10 * LEASE);
    guard.confirm().unwrap();
    redis.set_available(false);
    redis.advance(LEASE);
    assert_lost(&guard.check(), LostReason::Expired);
    assert!(client.stats().renewals_unknown > 0);
}

#[test]
fn a_reply_that_is_too_late_is_no_reply() {
    let redis = start();
    let builder = redis.builder().command_timeout(millis(100));
    let client = builder.build().unwrap();
    let lock = client.reentrant_lock("job");
    pair(&lock);
    redis.set_delay(millis(60_000));
    assert_unavailable(lock.try_acquire_now());
    redis.set_delay(Duration::ZERO);
    // The server has executed the request, and the client undoes it.
    eventually("the release of what was acquired", || {
        lock.is_locked().is_ok_and(|is_locked| !is_locked)
    });
}
