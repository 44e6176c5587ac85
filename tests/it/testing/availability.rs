//! A server that a test makes unavailable, or slow.

use std::time::{Duration, Instant};

use leasehold::LostReason;

use super::{LEASE, assert_lost, assert_unavailable, start, waiting};
use crate::support::timing::{eventually, millis, within};

#[test]
fn calls_fail_at_once_while_the_server_is_unavailable() {
    let redis = start();
    let client = redis.client().unwrap();
    let lock = client.reentrant_lock("job");
    let guard = client.reentrant_lock("held").acquire().unwrap();
    redis.set_available(false);
    let began = Instant::now();
    assert_unavailable(lock.lock());
    assert_unavailable(lock.try_acquire_now());
    assert_unavailable(lock.is_locked());
    assert_unavailable(client.fair_lock("fair").acquire());
    assert_unavailable(client.read_write_lock("shared").read().acquire());
    assert_unavailable(client.count_down_latch("latch").count());
    assert_unavailable(client.semaphore("permits").try_acquire(1, LEASE));
    assert_unavailable(guard.unlock());
    // With the time limits of these calls, it would be 30 seconds.
    assert!(began.elapsed() < millis(5000), "{:?}", began.elapsed());
    redis.set_available(true);
    assert!(!client.reentrant_lock("held").is_locked().unwrap());
    lock.acquire().unwrap().unlock().unwrap();
}

#[test]
fn a_waiting_thread_learns_that_the_server_is_unavailable() {
    let redis = start();
    let (one, other) = (redis.client().unwrap(), redis.client().unwrap());
    let _guard = one.reentrant_lock("job").acquire().unwrap();
    let behind_a_client = waiting(&redis, move || other.reentrant_lock("job").lock());
    // The call may take ten seconds without a reply.
    within(millis(5000), "the failure of a call", || {
        redis.set_available(false);
        assert_unavailable(behind_a_client.join().unwrap());
    });
}

#[test]
fn a_lock_stays_held_while_the_server_is_unavailable_for_less_than_its_lease() {
    let redis = start();
    let client = redis.client().unwrap();
    let guard = client.reentrant_lock("job").acquire().unwrap();
    redis.set_available(false);
    redis.advance(LEASE / 3 * 2);
    guard.check().unwrap();
    redis.set_available(true);
    redis.advance(10 * LEASE);
    guard.check().unwrap();
    guard.confirm().unwrap();
}

#[test]
fn a_lock_is_lost_when_the_server_is_unavailable_for_longer_than_its_lease() {
    let redis = start();
    let client = redis.client().unwrap();
    let guard = client.reentrant_lock("job").acquire().unwrap();
    redis.set_available(false);
    redis.advance(LEASE);
    assert_lost(guard.check(), LostReason::Expired);
    assert!(client.stats().renewals_unknown > 0);
}

#[test]
fn a_reply_that_is_too_late_is_no_reply() {
    let redis = start();
    let builder = redis.builder().command_timeout(millis(100));
    let client = builder.build().unwrap();
    let lock = client.reentrant_lock("job");
    lock.acquire().unwrap().unlock().unwrap();
    redis.set_delay(millis(60_000));
    assert_unavailable(lock.try_acquire_now());
    redis.set_delay(Duration::ZERO);
    // The server has executed the request, and the client undoes it.
    eventually("the release of what was acquired", || {
        lock.is_locked().is_ok_and(|is_locked| !is_locked)
    });
}
