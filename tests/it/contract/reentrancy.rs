//! A thread acquires a lock that it holds.

use super::Stage;
use crate::support::prelude::*;

const LEVELS: u32 = 3;

/// The count in Redis follows that of the thread.
pub fn counts_agree_at_every_level(stage: &Stage) {
    let lock = stage.lock();
    for level in 1..=LEVELS {
        lock.lock().unwrap();
        assert_eq!(lock.hold_count(), level);
        stage.await_count(level);
    }
    for level in (1..LEVELS).rev() {
        lock.unlock().unwrap();
        assert_eq!(lock.hold_count(), level);
        stage.await_count(level);
    }
    lock.unlock().unwrap();
    assert_eq!((lock.hold_count(), stage.count()), (0, 0));
    assert!(stage.holders().is_empty());
}

pub fn every_acquiring_method_adds_a_level(stage: &Stage) {
    let lock = stage.lock();
    lock.lock().unwrap();
    lock.lock_with(Lease::fixed(LEASE.get())).unwrap();
    assert!(lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    let guard = lock.acquire().unwrap();
    let another = lock.try_acquire(Duration::ZERO, Lease::RENEWED).unwrap();
    let another = another.expect("this thread has it");
    assert_eq!(lock.hold_count(), 5);
    let fixed = lock.acquire_with(Lease::fixed(LEASE.get())).unwrap();
    let interruptible = lock.acquire_interruptibly(Lease::RENEWED, &Interrupt::new());
    let at_once = lock.try_acquire_now().unwrap();
    assert_eq!(lock.hold_count(), 8);
    drop((fixed, interruptible, at_once.expect("this thread has it")));
    drop(guard);
    // A guard that was unlocked does not unlock again when it is dropped.
    another.unlock().unwrap();
    assert_eq!(lock.hold_count(), 3);
    for _ in 0..3 {
        lock.unlock().unwrap();
    }
    assert_eq!(stage.count(), 0);
    // A guard that is the first level.
    drop(lock.acquire_with(Lease::RENEWED).unwrap());
    assert_eq!(stage.count(), 0);
    drop(lock.try_acquire_now().unwrap().expect("it is free"));
    assert_eq!(stage.count(), 0);
    drop(lock.acquire_interruptibly(Lease::RENEWED, &Interrupt::new()));
    assert_eq!((lock.hold_count(), stage.count()), (0, 0));
}
