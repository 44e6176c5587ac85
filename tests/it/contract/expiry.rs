//! Leases that end.

use super::Stage;
use crate::support::prelude::*;

pub fn the_time_to_live_is_the_lease(stage: &Stage) {
    let lock = stage.lock();
    let odd = Duration::from_millis(54_321);
    for (lease, length) in [(Lease::RENEWED, LEASE.get()), (Lease::fixed(odd), odd)] {
        let before = Instant::now();
        lock.lock_with(lease).unwrap();
        let left = stage.time_to_live().expect("it is held");
        let passed = before.elapsed();
        assert!(left <= length, "{left:?} of {length:?}");
        // Redis counts in whole milliseconds.
        let rounding = Duration::from_millis(2);
        assert!(left + passed + rounding >= length, "{left:?} of {length:?}");
        lock.unlock().unwrap();
    }
}

pub fn a_waiting_client_gets_the_lock_when_a_fixed_lease_ends(stage: &Stage) {
    let (ours, theirs) = (stage.lock(), stage.lock());
    let lease = A_WHILE.get();
    ours.lock_with(Lease::fixed(lease)).unwrap();
    let start = Instant::now();
    theirs.lock().unwrap();
    let took = start.elapsed();
    // Redis may expire the key up to a millisecond before the local clock began to count.
    assert!(took + SLIP.get() >= lease, "too early: {took:?}");
    assert!(took <= lease + SLIP.get() * 2, "too late: {took:?}");
    theirs.unlock().unwrap();
}

/// The clock of the server may run a little faster than the local one.
pub fn a_hold_ends_in_the_client_before_it_ends_in_redis(stage: &Stage) {
    let lock = stage.lock();
    let lease = Duration::from_secs(60);
    let guard = lock
        .try_acquire(Duration::ZERO, Lease::fixed(lease))
        .unwrap();
    let guard = guard.expect("it is free");
    for (what, lease) in [
        ("taken", lease),
        ("extended", lease * 2),
        ("nested", lease * 3),
    ] {
        match what {
            "extended" => guard.extend(lease).unwrap(),
            "nested" => lock.lock_with(Lease::fixed(lease)).unwrap(),
            _ => {}
        }
        // The local time is read second, so that the time between the two reads makes it only
        // smaller.
        let in_redis = stage.time_to_live().expect("it is held");
        let here = guard.remaining();
        // One hundredth, less what Redis rounds and what the clocks may drift meanwhile.
        let drift = lease / 110;
        assert!(here + drift <= in_redis, "{what}: {here:?} of {in_redis:?}");
        assert!(here + SOON.get() >= lease, "{what}: {here:?}");
    }
    lock.unlock().unwrap();
    guard.unlock().unwrap();
}

/// The local clock of the holder is enough: no message is needed.
pub fn the_holder_detects_the_end_of_its_lease(stage: &Stage) {
    let lock = stage.lock();
    let lease = A_WHILE.get();
    let before = Instant::now();
    let guard = lock
        .try_acquire(Duration::ZERO, Lease::fixed(lease))
        .unwrap();
    let guard = guard.expect("it is free");
    let taken = Instant::now();
    assert!(guard.remaining() <= lease);
    guard.check().unwrap();
    eventually("the end of the lease", || guard.is_lost());
    // Earlier than the lease by no more than the clocks may drift.
    assert!(before.elapsed() >= lease * 9 / 10, "noticed too early");
    assert!(taken.elapsed() <= lease + SLIP.get(), "noticed too late");
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(guard.lost().recv(), Ok(LostReason::Expired));
    assert_lost(&guard.check(), LostReason::Expired);
    assert_lost(&guard.unlock(), LostReason::Expired);
}

/// The unlock of a lost hold must not release the hold of another client.
pub fn an_expired_holder_does_not_release_the_hold_of_another_client(stage: &Stage) {
    let (stale, next) = (stage.lock(), stage.lock());
    stale.lock_with(Lease::fixed(A_WHILE.get())).unwrap();
    stale.lock_with(Lease::fixed(A_WHILE.get())).unwrap();
    next.lock().unwrap();
    let held = stage.holders();
    assert_lost(&stale.unlock(), LostReason::Expired);
    assert_lost(&stale.unlock(), LostReason::Expired);
    assert_matches!(stale.unlock(), Err(Error::NotHeld { .. }));
    assert_eq!(stage.holders(), held);
    assert_eq!(next.hold_count(), 1);
    next.unlock().unwrap();
}

/// The unlock of a lost hold must not release the hold of another thread of the same client.
pub fn an_expired_holder_does_not_release_the_hold_of_another_thread(stage: &Stage) {
    let lock = stage.lock();
    let guard = lock
        .try_acquire(Duration::ZERO, Lease::fixed(A_WHILE.get()))
        .unwrap();
    assert!(on_another_thread(|| lock.try_lock(SOON.get(), Lease::RENEWED)).unwrap());
    let held = stage.holders();
    drop(guard);
    assert_eq!(stage.holders(), held);
    assert_matches!(lock.unlock(), Err(Error::NotHeld { .. }));
    assert_eq!(stage.holders(), held);
}
