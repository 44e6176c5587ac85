//! Locks that a test takes away from their holders.

use leasehold::testing::InMemoryRedis;

use super::{LEASE, start, waiting};
use crate::support::prelude::*;

#[test]
fn holds_of_every_kind_can_be_lost() {
    type Take = fn(&InMemoryRedis, &str) -> bool;
    let ways: [(Take, LostReason); 2] = [
        (|redis, name| redis.lose(name), LostReason::Deleted),
        (|redis, name| redis.take_over(name), LostReason::Taken),
    ];
    for (take, reason) in ways {
        let redis = start();
        let client = redis.client().unwrap();
        let read = client.read_write_lock("shared").read().acquire().unwrap();
        let fair = client.fair_lock("fair").acquire().unwrap();
        let several = client.multi_lock(["one", "two"]).acquire().unwrap();
        let semaphore = client.leased_semaphore("permits");
        semaphore.set_permits(2).unwrap();
        let permit = semaphore.acquire().unwrap();
        for name in ["shared", "fair", "two", "permits"] {
            assert!(take(&redis, name));
        }
        for result in [read.check(), fair.check(), several.check()] {
            assert_lost(&result, reason);
        }
        assert!(permit.is_lost());
    }
}

#[test]
fn a_lock_that_no_thread_holds_is_not_lost() {
    let redis = start();
    let client = redis.builder().linger(LEASE / 3).build().unwrap();
    let lock = client.reentrant_lock("job");
    pair(&lock);
    assert!(!redis.lose("job"), "it is only kept in Redis");

    let (one, other) = (redis.client().unwrap(), redis.client().unwrap());
    let call = waiting(&redis, move || {
        let lock = one.reentrant_lock("shared");
        let guard = lock.acquire()?;
        lock.condition("ready").wait()?;
        guard.check()
    });
    let lock = other.reentrant_lock("shared");
    assert!(!redis.lose("shared"), "its thread only waits");
    let guard = lock.acquire().unwrap();
    lock.condition("ready").notify_one().unwrap();
    guard.unlock().unwrap();
    call.join().unwrap().unwrap();
}
