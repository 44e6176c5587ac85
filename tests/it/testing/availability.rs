//! A server that a test makes unavailable, or slow.

use leasehold::Result;

use super::{LEASE, MINUTE, assert_unavailable, start};
use crate::support::prelude::*;

/// The default.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

/// Raised at the end of a test, also after a panic.
struct Raised<'a>(&'a Interrupt);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}

#[test]
fn calls_without_a_limit_wait_for_ten_command_timeouts_or_until_they_are_interrupted() {
    let redis = start();
    let client = redis.client().unwrap();
    let interrupt = Interrupt::new();
    let unlimited: [fn(&LockClient) -> Result<()>; 4] = [
        |client| client.reentrant_lock("job").lock(),
        |client| client.fair_lock("fair").acquire().map(drop),
        |client| client.semaphore("permits").acquire(1),
        |client| client.count_down_latch("latch").wait(),
    ];
    redis.set_available(false);
    thread::scope(|scope| {
        let client = &client;
        let calls = unlimited.map(|call| scope.spawn(move || call(client)));
        let interrupted = scope.spawn(|| {
            let lock = client.reentrant_lock("other");
            lock.lock_interruptibly(Lease::RENEWED, &interrupt)
        });
        let raised = Raised(&interrupt);
        assert!(redis.await_waiting(5));
        redis.advance(9 * COMMAND_TIMEOUT);
        assert!(calls.iter().all(|call| !call.is_finished()));
        redis.advance(COMMAND_TIMEOUT);
        for call in calls {
            assert_unavailable(call.join().unwrap());
        }
        redis.advance(MINUTE);
        assert!(!interrupted.is_finished());
        drop(raised);
        let result = interrupted.join().unwrap();
        assert_matches!(result, Err(Error::Interrupted { .. }));
    });
}

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
