//! What has no place in the contract of locks: semaphores, latches, conditions and the commands of
//! the server.

use super::{LEASE, MINUTE, start, waiting};
use crate::support::prelude::*;

#[test]
fn a_leased_permit_is_renewed_or_ends() {
    let redis = start();
    let client = redis.client().unwrap();
    let semaphore = client.leased_semaphore("permits");
    semaphore.set_permits(2).unwrap();
    let renewed = semaphore.acquire().unwrap();
    let fixed = semaphore.acquire_with(Lease::fixed(MINUTE)).unwrap();
    assert!(semaphore.try_acquire_now().unwrap().is_none());
    let wanted = client.leased_semaphore("permits");
    let call = waiting(&redis, move || wanted.acquire().map(drop));
    redis.advance(MINUTE);
    call.join().unwrap().unwrap();
    assert!(fixed.is_lost());
    redis.advance(10 * LEASE);
    renewed.check().unwrap();
    renewed.release().unwrap();
    assert_eq!(semaphore.available().unwrap(), 2);
}

#[test]
fn a_wait_on_a_condition_is_notified_or_ends() {
    let redis = start();
    let client = redis.client().unwrap();
    let waiter = redis.client().unwrap();
    let lock = client.reentrant_lock("buffer");
    let wait = move |time| {
        let lock = waiter.reentrant_lock("buffer");
        let guard = lock.acquire()?;
        let is_notified = lock.condition("filled").wait_for(time)?;
        guard.unlock()?;
        Ok::<bool, Error>(is_notified)
    };
    let again = wait.clone();
    let call = waiting(&redis, move || wait(10 * MINUTE));
    redis.advance(9 * MINUTE);
    assert!(!call.is_finished());
    redis.advance(MINUTE);
    assert!(!call.join().unwrap().unwrap());

    let call = waiting(&redis, move || again(10 * MINUTE));
    redis.advance(9 * MINUTE);
    let guard = lock.acquire().unwrap();
    lock.condition("filled").notify_one().unwrap();
    guard.unlock().unwrap();
    assert!(call.join().unwrap().unwrap());
}

#[test]
fn an_unknown_command_is_an_error_that_says_so() {
    let redis = start();
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let failed = redis::cmd("XADD").arg("key").exec(&mut connection);
    let text = failed.unwrap_err().to_string();
    assert!(
        text.contains("leasehold::testing does not have it"),
        "{text}"
    );
}
