//! Guards unlock in all circumstances.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::Stage;
use crate::support::prelude::*;

pub fn an_unlock_does_not_release_the_levels_of_guards(stage: &Stage) {
    let lock = stage.lock();
    lock.lock().unwrap();
    let guard = lock.acquire().unwrap();
    lock.unlock().unwrap();
    guard.check().unwrap();
    drop(guard);
    assert_eq!(
        (lock.hold_count(), stage.count()),
        (0, 0),
        "and nothing is left"
    );
}

pub fn an_unlock_under_a_guard_is_refused(stage: &Stage) {
    let (lock, other) = (stage.lock(), stage.lock());
    let guard = lock.acquire().unwrap();
    is_refused(lock.unlock(), stage);
    guard.check().unwrap();
    assert_eq!((lock.hold_count(), stage.count()), (1, 1));
    let taken = other.try_lock(Duration::ZERO, Lease::RENEWED).unwrap();
    assert!(!taken, "another client took the lock under a guard");
    guard.unlock().unwrap();
    assert_eq!((lock.hold_count(), stage.count()), (0, 0));
}

/// The call fails, and the error says what to do instead.
fn is_refused(result: leasehold::Result<()>, stage: &Stage) {
    let error = result.unwrap_err();
    assert!(
        matches!(&error, Error::NotHeld { lock, by_guard: true } if *lock == stage.whole_name()),
        "{error:?}"
    );
    assert!(
        error.to_string().ends_with("by a guard: unlock the guard"),
        "{error}"
    );
}

pub fn a_panic_unlocks(stage: &Stage) {
    let lock = stage.lock();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _outer = lock.acquire().unwrap();
        let _inner = lock.acquire().unwrap();
        assert_eq!(lock.hold_count(), 2);
        // `resume_unwind` skips the panic hook, whose report would look like a failure.
        resume_unwind(Box::new("on purpose"));
    }));
    assert_eq!(result.unwrap_err().downcast_ref(), Some(&"on purpose"));
    assert_eq!((lock.hold_count(), stage.count()), (0, 0));
}

pub fn a_guard_of_a_lost_lock_can_be_dropped(stage: &Stage) {
    let lock = stage.lock();
    let guard = lock.acquire().unwrap();
    stage.delete();
    drop(guard);
    let guard = lock.acquire().unwrap();
    stage.delete();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _guard = guard;
        resume_unwind(Box::new("on purpose"));
    }));
    assert_eq!(result.unwrap_err().downcast_ref(), Some(&"on purpose"));
    pair(&*lock);
}

/// The guard is dropped when other thread-locals may be gone.
pub fn a_guard_in_a_thread_local_unlocks_at_the_threads_end(stage: &Stage) {
    thread_local! {
        static KEPT: RefCell<Vec<LockGuard>> = const { RefCell::new(Vec::new()) };
    }
    let lock = stage.lock();
    let worker = lock.clone();
    let thread = thread::spawn(move || {
        // Before the library uses a thread-local for the first time.
        KEPT.with_borrow(Vec::is_empty);
        let guards = [worker.acquire().unwrap(), worker.acquire().unwrap()];
        KEPT.with_borrow_mut(|kept| kept.extend(guards));
    });
    thread.join().unwrap();
    assert_eq!(stage.count(), 0);
}

/// Only `force_unlock` can release the lock.
pub fn a_forgotten_guard_keeps_the_lock(stage: &Stage) {
    let (lock, other) = (stage.lock(), stage.lock());
    std::mem::forget(lock.acquire().unwrap());
    is_refused(lock.unlock(), stage);
    throughout(LEASE.get() + A_WHILE.get(), "held, and renewed", || {
        stage.count() == 1 && lock.hold_count() == 1
    });
    stage.delete();
    eventually("the loss to be known", || lock.hold_count() == 0);
    is_refused(lock.unlock(), stage);
    pair(&*other);
}

pub fn a_lease_can_be_extended(stage: &Stage) {
    let lock = stage.lock();
    let guard = lock
        .try_acquire(Duration::ZERO, Lease::fixed(LEASE.get()))
        .unwrap();
    let guard = guard.expect("it is free");
    let long = LEASE.get() * 20;
    guard.extend(long).unwrap();
    let enough = long - millis(1000);
    assert!(guard.remaining() > enough && guard.remaining() <= long);
    assert!(stage.time_to_live().unwrap() > enough);
    guard.extend(A_WHILE.get()).unwrap();
    assert!(guard.remaining() > enough, "never shortened");
    assert!(stage.time_to_live().unwrap() > enough, "never shortened");
    throughout(A_WHILE.get() * 2, "held beyond its first lease", || {
        guard.check().is_ok() && stage.count() == 1
    });
    guard.unlock().unwrap();
    assert_eq!(stage.count(), 0);
}

/// A client for which the watchdog sends nothing during the test.
fn quiet(stage: &Stage) -> Arc<dyn Lock> {
    let quiet = |builder: LockClientBuilder| {
        let builder = builder.watchdog_lease(SOON.get() * 6);
        builder.confirm_every(Duration::ZERO)
    };
    stage.lock_of(&stage.client_with(quiet))
}

pub fn a_confirmation_detects_the_loss(stage: &Stage) {
    let lock = quiet(stage);
    let guard = lock.acquire().unwrap();
    let left = guard.remaining();
    guard.confirm().unwrap();
    assert!(guard.remaining() <= left, "the lease does not change");
    stage.delete();
    guard.check().unwrap();
    for _ in 0..2 {
        assert_lost(&guard.confirm(), LostReason::Deleted);
    }
    assert_eq!(guard.lost().try_recv(), Ok(LostReason::Deleted));
    assert_lost(&guard.unlock_after(SOON.get()), LostReason::Deleted);
    assert_eq!(stage.count(), 0);
}

/// The time begins when the last level is unlocked.
pub fn a_lock_can_be_kept_in_redis_after_its_unlock(stage: &Stage) {
    let (lock, other) = (quiet(stage), stage.lock());
    let time = A_WHILE.get() * 6;
    let [outer, inner] = [(); 2].map(|()| lock.acquire().unwrap());
    inner.unlock_after(time).unwrap();
    outer.confirm().unwrap();
    let start = Instant::now();
    outer.unlock().unwrap();
    // The thread no longer owns it.
    assert!(lock.hold_count() == 0 && lock.try_acquire_now().unwrap().is_none());
    assert!(other.remaining().unwrap().unwrap() <= time);
    other.acquire().unwrap().unlock().unwrap();
    assert!(start.elapsed() >= time - millis(20));
}

pub fn a_lock_that_cannot_be_kept_is_unlocked_at_once(stage: &Stage) {
    let lock = stage.lock();
    for time in [Duration::from_micros(999), Duration::MAX, Duration::ZERO] {
        let result = lock.acquire().unwrap().unlock_after(time);
        match time.is_zero() {
            true => result.unwrap(),
            false => assert_invalid(&result, "time", lock.name()),
        }
        assert_eq!((lock.hold_count(), stage.count()), (0, 0));
    }
}
