//! A nested hold never shortens the lease of the outer one, and gets at least what it asked for.

use super::Stage;
use crate::support::prelude::*;

pub fn a_nested_lease_never_shortens(stage: &Stage) {
    let lock = stage.lock();
    let long = LEASE.get() * 20;
    let guard = lock
        .try_acquire(Duration::ZERO, Lease::fixed(long))
        .unwrap();
    let guard = guard.expect("it is free");
    lock.lock_with(Lease::fixed(A_WHILE.get())).unwrap();
    let enough = long - millis(1000);
    assert!(stage.time_to_live().unwrap() > enough);
    assert!(guard.remaining() > enough);
    lock.unlock().unwrap();
    assert!(stage.time_to_live().unwrap() > enough);
    assert!(guard.remaining() > enough);
    guard.unlock().unwrap();
}

/// A fixed hold is renewed while an inner level asks for it, and no longer.
pub fn an_inner_renewal_lasts_as_long_as_its_level(stage: &Stage) {
    let lock = stage.lock();
    lock.lock_with(Lease::fixed(LEASE.get())).unwrap();
    lock.lock().unwrap();
    throughout(LEASE.get() * 2, "both levels", || {
        lock.hold_count() == 2 && stage.time_to_live().is_some()
    });
    lock.unlock().unwrap();
    assert_eq!(lock.hold_count(), 1);
    eventually("the end of the outer lease", || lock.hold_count() == 0);
    let lost = lock.unlock();
    assert_lost(&lost, LostReason::Expired);
}
