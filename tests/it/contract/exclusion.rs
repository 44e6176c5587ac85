//! Mutual exclusion.

use super::Stage;
use crate::support::prelude::*;

pub fn another_thread_is_kept_out(stage: &Stage) {
    let lock = stage.lock();
    lock.lock().unwrap();
    on_another_thread(|| {
        assert!(!lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
        assert!(!lock.is_held_by_current_thread());
        assert_eq!(lock.hold_count(), 0);
    });
    assert!(lock.is_held_by_current_thread());
    lock.unlock().unwrap();
    on_another_thread(|| {
        assert!(lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
        lock.unlock().unwrap();
    });
}

pub fn another_client_is_kept_out(stage: &Stage) {
    let (ours, theirs) = (stage.lock(), stage.lock());
    ours.lock().unwrap();
    // On the same thread: a hold belongs to a client and a thread.
    assert!(!theirs.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    assert!(!theirs.is_held_by_current_thread());
    ours.unlock().unwrap();
    assert!(theirs.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    assert!(!ours.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    theirs.unlock().unwrap();
}

pub fn two_handles_of_one_client_are_one_lock(stage: &Stage) {
    let client = stage.client();
    let (one, other) = (stage.lock_of(&client), stage.lock_of(&client.clone()));
    one.lock().unwrap();
    assert_eq!(other.hold_count(), 1);
    other.unlock().unwrap();
    assert_eq!(stage.count(), 0);
}

pub fn a_wait_that_ends_first_returns_false_in_time(stage: &Stage) {
    let (ours, theirs) = (stage.lock(), stage.lock());
    ours.lock_with(Lease::fixed(LEASE.get() * 20)).unwrap();
    for lock in [&theirs, &ours] {
        for wait in [Duration::ZERO, A_WHILE.get()] {
            on_another_thread(|| {
                let start = Instant::now();
                let taken = within(wait + SLIP.get() * 4, "the attempt", || {
                    lock.try_lock(wait, Lease::RENEWED).unwrap()
                });
                assert!(!taken);
                assert!(start.elapsed() >= wait, "gave up too early");
                let guard = lock.try_acquire(wait, Lease::RENEWED).unwrap();
                assert!(guard.is_none());
            });
        }
    }
    ours.unlock().unwrap();
    assert_eq!(stage.count(), 0);
}

pub fn only_the_holder_unlocks(stage: &Stage) {
    let client = stage.client();
    let (lock, clone) = (stage.lock_of(&client), stage.lock_of(&client));
    let not_held =
        |result| matches!(result, Err(Error::NotHeld { lock, .. }) if lock == stage.whole_name());

    assert!(not_held(lock.unlock()), "never taken");
    lock.lock().unwrap();
    let held = stage.holders();
    assert!(
        not_held(on_another_thread(|| lock.unlock())),
        "another thread"
    );
    assert!(
        not_held(on_another_thread(|| clone.unlock())),
        "with another handle"
    );
    assert!(not_held(stage.lock().unlock()), "another client");
    assert_eq!(stage.holders(), held, "nothing has changed");
    assert_eq!(lock.hold_count(), 1);

    lock.unlock().unwrap();
    assert!(not_held(lock.unlock()), "already unlocked");
    on_another_thread(|| lock.lock()).unwrap();
    assert!(not_held(lock.unlock()), "held by a thread that has ended");
    assert_eq!(stage.count(), 1);
}

pub fn is_locked_and_remaining_lease_report_the_state_in_redis(stage: &Stage) {
    let (ours, theirs) = (stage.lock(), stage.lock());
    assert!(!theirs.is_locked().unwrap());
    assert_eq!(theirs.remaining().unwrap(), None);
    ours.lock().unwrap();
    assert!(theirs.is_locked().unwrap());
    let left = theirs.remaining().unwrap().expect("it is held");
    assert!(left > Duration::ZERO && left <= LEASE.get(), "{left:?}");
    ours.unlock().unwrap();
    assert!(!theirs.is_locked().unwrap());
}
