//! Waiting threads get the lock.

use super::Stage;
use crate::support::prelude::*;

/// `waiter` gets the lock after `holder` has unlocked it, and not before.
pub fn is_handed_over(
    stage: &Stage,
    holder: &dyn Lock,
    waiter: &dyn Lock,
    wait: impl FnOnce(&dyn Lock) + Send,
) {
    holder.lock_with(long()).unwrap();
    let taken = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            wait(waiter);
            taken.store(true, Ordering::SeqCst);
            waiter.unlock().unwrap();
        });
        throughout(A_WHILE.get(), "the holder keeps it", || {
            !taken.load(Ordering::SeqCst)
        });
        // Long before the wait or the lease ends: the waiter was woken.
        within(SOON.get() / 2, "the hand-over", || {
            holder.unlock().unwrap();
            waiting.join().unwrap();
        });
    });
    assert_eq!(stage.count(), 0);
}

/// Each way to wait until the lock is free.
const WAYS: [fn(&dyn Lock); 3] = [
    |lock| lock.lock().unwrap(),
    |lock| assert!(lock.try_lock(SOON.get(), Lease::RENEWED).unwrap()),
    |lock| assert!(lock.try_lock(Duration::MAX, Lease::RENEWED).unwrap()),
];

pub fn a_local_thread_gets_the_lock_on_release(stage: &Stage) {
    let lock = stage.lock();
    for wait in WAYS {
        is_handed_over(stage, &*lock, &*lock, wait);
    }
}

pub fn another_client_gets_the_lock_on_release(stage: &Stage) {
    let (ours, theirs) = (stage.lock(), stage.lock());
    for wait in WAYS {
        is_handed_over(stage, &*ours, &*theirs, wait);
    }
}

/// Many threads of several clients acquire the lock once, and each of them gets it.
pub fn every_thread_gets_the_lock(stage: &Stage) {
    const THREADS: usize = 4;
    let clients = [stage.client(), stage.client(), stage.client()];
    let inside = AtomicBool::new(false);
    thread::scope(|scope| {
        for client in &clients {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let lock = stage.lock_of(client);
                    let guard = lock.acquire().unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst), "two at once");
                    thread::yield_now();
                    inside.store(false, Ordering::SeqCst);
                    guard.unlock().unwrap();
                });
            }
        }
    });
    assert_eq!(stage.count(), 0);
}
