//! A lock that stays in Redis after its function, and a body that extends it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use leasehold::{Error, LockClient, current_lock, locked};

use crate::shop::{Shop, assert_held_by_another, assert_not_held};

const MINUTE: Duration = Duration::from_secs(60);

#[locked(client = locks, key = "report", lease = "1h", fixed, at_least = "1h")]
fn hourly(
    locks: &LockClient,
    body: impl FnOnce() -> leasehold::Result<()>,
) -> leasehold::Result<()> {
    body()
}

#[locked(client = locks, key = "report")]
fn now(locks: &LockClient, body: impl FnOnce() -> leasehold::Result<()>) -> leasehold::Result<()> {
    body()
}

/// That it is kept, for about this time.
#[track_caller]
fn assert_kept(shop: &Shop, time: Duration) {
    let left = Duration::from_millis(shop.time_to_live("report").try_into().unwrap());
    assert!(time - MINUTE / 2 < left && left <= time, "{left:?}");
    for locks in [&shop.locks, &shop.another_client()] {
        let refused = now(locks, || panic!("the lock is kept"));
        assert_held_by_another(refused, "report");
    }
}

#[test]
fn a_lock_is_kept_at_least_for_a_time_after_every_result() {
    let failed = || {
        Err(Error::Interrupted {
            lock: "other".into(),
        })
    };
    let shop = Shop::open();
    hourly(&shop.locks, || Ok(())).unwrap();
    assert_kept(&shop, MINUTE * 60);

    let shop = Shop::open();
    assert!(matches!(
        hourly(&shop.locks, failed),
        Err(Error::Interrupted { .. })
    ));
    assert_kept(&shop, MINUTE * 60);

    let shop = Shop::open();
    let body = || hourly(&shop.locks, || panic!("on purpose"));
    catch_unwind(AssertUnwindSafe(body)).unwrap_err();
    assert_kept(&shop, MINUTE * 60);
}

#[test]
fn the_body_keeps_its_lock_after_the_function() {
    let shop = Shop::open();
    let body = || {
        let lock = current_lock();
        lock.unlock_after(MINUTE * 10)?;
        lock.unlock_after(MINUTE)?;
        lock.unlock_after(Duration::ZERO)?;
        lock.check()?;
        now(&shop.locks, || Ok(()))
    };
    now(&shop.locks, body).unwrap();
    assert_kept(&shop, MINUTE * 10);
}

#[test]
fn the_body_extends_and_confirms_its_lock() {
    let shop = Shop::open();
    let body = || {
        let lock = current_lock();
        lock.confirm()?;
        lock.extend(MINUTE * 60)?;
        assert!(lock.remaining() > MINUTE * 50);
        assert!(shop.time_to_live("report") > 3_000_000);
        let zero = lock.extend(Duration::ZERO);
        assert!(
            matches!(zero, Err(Error::InvalidArgument { .. })),
            "{zero:?}"
        );
        shop.delete("report");
        assert!(matches!(lock.confirm(), Err(Error::Lost { .. })));
        assert!(matches!(lock.extend(MINUTE), Err(Error::Lost { .. })));
        lock.unlock_after(MINUTE)
    };
    let lost = now(&shop.locks, body);
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
    assert!(!shop.has("report"), "a lost lock is not kept");
}

#[test]
fn outside_of_a_locked_function_nothing_is_extended_or_kept() {
    let lock = current_lock();
    assert_not_held(lock.extend(MINUTE));
    assert_not_held(lock.confirm());
    assert_not_held(lock.unlock_after(MINUTE));
}
