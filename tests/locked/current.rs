//! What a body can learn about its lock.

use std::cell::RefCell;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, TryRecvError};
use leasehold::{CurrentLock, LockClient, LostReason, Subscription, current_lock, locked};

use crate::servers::timing::SOON;
use crate::shop::{Shop, assert_not_held};

#[locked(client = locks, prefix = "shop", key = "outer", kind = fenced)]
fn outer(locks: &LockClient) -> leasehold::Result<(u64, CurrentLock)> {
    let lock = current_lock();
    lock.check()?;
    assert_eq!(lock.name(), "shop:outer");
    assert!(!lock.is_lost() && lock.remaining() > Duration::ZERO);

    let kept = inner(locks)?;
    assert_not_held(kept.check());
    assert_eq!(kept.name(), "inner");

    assert_eq!(current_lock().name(), "shop:outer");
    Ok((lock.fencing_token().expect("it is fenced"), lock))
}

#[locked(client = locks, key = "inner")]
fn inner(locks: &LockClient) -> leasehold::Result<CurrentLock> {
    let lock = current_lock();
    assert_eq!(lock.name(), "inner");
    assert_eq!(lock.fencing_token(), None, "it is not fenced");
    assert!(locks.reentrant_lock("inner").is_held_by_current_thread());
    lock.check()?;
    Ok(lock)
}

#[test]
fn the_current_lock_is_that_of_the_innermost_function() {
    let shop = Shop::open();
    let (first, _) = outer(&shop.locks).unwrap();
    let (second, _) = outer(&shop.another_client()).unwrap();
    assert!(first < second, "{first} {second}");
}

#[locked(client = locks, key = "nested")]
fn nested(locks: &LockClient, depth: u32) -> leasehold::Result<Subscription<LostReason>> {
    if depth == 0 {
        return Ok(current_lock().lost());
    }
    let inner = nested(locks, depth - 1)?;
    assert_eq!(inner.try_recv(), Err(TryRecvError::Empty));
    Ok(inner)
}

#[test]
fn a_loss_is_reported_until_the_outermost_function_returns() {
    let news = nested(&Shop::open().locks, 2).unwrap();
    let end = news.recv_timeout(SOON.get());
    assert_eq!(end, Err(RecvTimeoutError::Disconnected));
}

#[track_caller]
fn assert_not_current(lock: &CurrentLock) {
    assert_not_held(lock.check());
    assert!(!lock.is_lost());
    assert_eq!(lock.remaining(), Duration::ZERO);
    assert_eq!(lock.fencing_token(), None);
    let news = lock.lost().recv_timeout(SOON.get());
    assert_eq!(news, Err(RecvTimeoutError::Disconnected));
}

#[test]
fn a_kept_current_lock_does_not_keep_the_lock_held() {
    let shop = Shop::open();
    let (_, kept) = outer(&shop.locks).unwrap();
    assert!(!shop.has("shop:outer"));
    assert_not_current(&kept);
    assert_eq!(kept.name(), "shop:outer");
}

#[test]
fn outside_of_locked_functions_there_is_no_current_lock() {
    assert_not_current(&current_lock());
    assert_eq!(current_lock().name(), "");
}

#[locked(client = locks, key = "outer")]
fn asked_elsewhere(locks: &LockClient) -> leasehold::Result<()> {
    current_lock().check()?;
    let elsewhere = std::thread::spawn(|| assert_not_current(&current_lock()));
    elsewhere.join().unwrap();
    current_lock().check()
}

#[test]
fn each_thread_has_its_own_current_lock() {
    asked_elsewhere(&Shop::open().locks).unwrap();
}

/// A thread-local value may call a locked function when its thread ends.
#[test]
fn a_locked_function_may_run_when_its_thread_ends() {
    struct Farewell(LockClient);

    impl Drop for Farewell {
        fn drop(&mut self) {
            inner_at_the_end(&self.0).unwrap();
        }
    }

    thread_local! {
        static FAREWELL: RefCell<Option<Farewell>> = const { RefCell::new(None) };
    }

    // The thread-locals of the crate may be dropped before this one or after it.
    for farewell_first in [true, false] {
        let shop = Shop::open();
        let locks = shop.locks.clone();
        let thread = std::thread::spawn(move || {
            if !farewell_first {
                inner(&locks).unwrap();
            }
            FAREWELL.with(|farewell| *farewell.borrow_mut() = Some(Farewell(locks.clone())));
            inner(&locks).unwrap();
        });
        thread.join().unwrap();
        assert!(!shop.has("inner"));
        assert!(shop.has("done"));
    }
}

#[locked(client = locks, key = "inner")]
fn inner_at_the_end(locks: &LockClient) -> leasehold::Result<()> {
    let done = locks.reentrant_lock("done");
    // Its guard is never unlocked: the test sees that it is held.
    done.lock_with(leasehold::Lease::fixed(Duration::from_secs(600)))
}
