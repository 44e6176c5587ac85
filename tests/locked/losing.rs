//! A lock that is lost while the body runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use leasehold::{Error, LostReason, current_lock, locked};

use crate::servers::timing::{LEASE, Millis, SOON, eventually};
use crate::shop::Shop;

/// After its key was found deleted, the last third of this lease is longer than a stall of a busy
/// machine, so that the loss is not confused with the end of the lease.
const NO_STALL: Millis = Millis(6_000);

/// What the body does after its lock is lost.
#[derive(Clone, Copy)]
enum Then {
    ReturnAtOnce,
    ReturnWhenItKnows,
    Check,
    Fail,
    Panic,
}

#[derive(Debug)]
enum WorkError {
    Lock(Error),
    Own,
}

impl From<Error> for WorkError {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

fn lose(shop: &Shop, then: Then) -> Result<u32, WorkError> {
    shop.delete("order");
    let lock = current_lock();
    match then {
        Then::ReturnAtOnce => {}
        Then::Fail => return Err(WorkError::Own),
        Then::Panic => panic!("on purpose"),
        Then::ReturnWhenItKnows => eventually("the loss to be known", || lock.is_lost()),
        Then::Check => {
            let reason = lock.lost().recv_timeout(SOON.get());
            assert_eq!(reason, Ok(LostReason::Deleted));
            lock.check()?;
            panic!("it is lost");
        }
    }
    Ok(7)
}

#[locked(client = shop.locks, key = "order")]
fn strict(shop: &Shop, then: Then) -> Result<u32, WorkError> {
    lose(shop, then)
}

#[locked(client = shop.locks, key = "order", on_loss = "ignore")]
fn careless(shop: &Shop, then: Then) -> Result<u32, WorkError> {
    lose(shop, then)
}

#[track_caller]
fn assert_lost<T: std::fmt::Debug>(result: Result<T, WorkError>, expected: LostReason) {
    match result {
        Err(WorkError::Lock(Error::Lost { lock, reason })) => {
            assert_eq!((&*lock, reason), ("order", expected));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "soak"]
fn the_result_of_a_body_with_a_lost_lock_is_an_error() {
    let shop = Shop::with_leases(NO_STALL);
    for then in [Then::ReturnAtOnce, Then::ReturnWhenItKnows, Then::Check] {
        assert_lost(strict(&shop, then), LostReason::Deleted);
        assert!(!shop.has("order"), "and it can be taken again");
    }
}

#[test]
#[ignore = "soak"]
fn a_loss_can_be_ignored() {
    let shop = Shop::with_leases(NO_STALL);
    for then in [Then::ReturnAtOnce, Then::ReturnWhenItKnows] {
        assert_eq!(careless(&shop, then).unwrap(), 7);
    }
    // The result of the body is returned.
    assert_lost(careless(&shop, Then::Check), LostReason::Deleted);
}

#[locked(client = shop.locks, key = "order", on_loss = "ignore")]
fn within_a_lost_one(shop: &Shop) -> Result<u32, WorkError> {
    panic!("there is no lock")
}

#[locked(client = shop.locks, key = "order")]
fn around_another(shop: &Shop) -> Result<u32, WorkError> {
    lose(shop, Then::ReturnWhenItKnows)?;
    assert_lost(within_a_lost_one(shop), LostReason::Deleted);
    Ok(7)
}

#[test]
fn a_body_inside_a_lost_lock_is_not_run() {
    let shop = Shop::with_leases(NO_STALL);
    assert_lost(around_another(&shop), LostReason::Deleted);
}

#[test]
fn the_error_of_the_body_is_kept() {
    let shop = Shop::with_leases(LEASE);
    for function in [strict, careless] {
        let own = function(&shop, Then::Fail);
        assert!(matches!(own, Err(WorkError::Own)), "{own:?}");
    }
}

#[test]
fn a_panic_with_a_lost_lock_continues() {
    let shop = Shop::with_leases(LEASE);
    let panicked = catch_unwind(AssertUnwindSafe(|| strict(&shop, Then::Panic))).unwrap_err();
    assert_eq!(panicked.downcast_ref::<&str>(), Some(&"on purpose"));
}

#[locked(client = shop.locks, key = "order", lease = "4s", max_renewals = 1)]
fn limited(shop: &Shop) -> Result<bool, WorkError> {
    eventually("the limit", || current_lock().is_lost());
    assert_eq!(shop.locks.stats().renewals, 1);
    Ok(shop.has("order"))
}

#[test]
fn the_end_of_the_last_renewal_is_reported_while_the_last_lease_runs() {
    assert_lost(limited(&Shop::with_leases(LEASE)), LostReason::RenewalLimit);
}

#[locked(client = shop.locks, key = "order")]
fn without_redis(shop: &Shop) -> Result<u32, WorkError> {
    shop.server.kill();
    Ok(7)
}

/// The work is done, but the lock may stay for a lease, so the caller gets an error. A caller that
/// repeats the call after a transient error does not repeat this one.
#[test]
fn an_unlock_that_fails_is_an_error_that_is_not_transient() {
    let shop = Shop::with_leases(LEASE);
    let error = match without_redis(&shop) {
        Err(WorkError::Lock(error)) => error,
        other => panic!("{other:?}"),
    };
    let is_expected = matches!(error, Error::NotReleased { .. } | Error::Lost { .. });
    assert!(is_expected && !error.is_transient(), "{error}");
}
