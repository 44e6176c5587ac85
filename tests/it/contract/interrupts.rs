//! Interrupting a wait.

use leasehold::Result;

use super::Stage;
use crate::support::prelude::*;

type Take = fn(&dyn Lock, &Interrupt) -> Result<()>;

/// Each way to wait that an interrupt ends.
const WAYS: [Take; 4] = [
    |lock, interrupt| lock.lock_interruptibly(Lease::RENEWED, interrupt),
    |lock, interrupt| {
        let taken = lock.try_lock_interruptibly(SOON.get() * 3, Lease::RENEWED, interrupt);
        taken.map(|taken| assert!(!taken))
    },
    |lock, interrupt| {
        let guard = lock.try_acquire_interruptibly(Duration::MAX, Lease::RENEWED, interrupt);
        guard.map(|guard| assert!(guard.is_none()))
    },
    |lock, interrupt| {
        let guard = lock.acquire_owned_interruptibly(Lease::RENEWED, interrupt);
        guard.map(drop)
    },
];

/// `waiter` waits, is interrupted, and leaves nothing in the queue or in Redis.
fn is_interrupted(stage: &Stage, holder: &dyn Lock, waiter: &dyn Lock) {
    for take in WAYS {
        one_way_is_interrupted(stage, holder, waiter, take);
    }
}

fn one_way_is_interrupted(stage: &Stage, holder: &dyn Lock, waiter: &dyn Lock, take: Take) {
    holder.lock_with(long()).unwrap();
    let held = stage.holders();
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let result = take(waiter, &interrupt);
            assert_eq!(waiter.hold_count(), 0);
            result
        });
        throughout(A_WHILE.get(), "the waiter waits", || !waiting.is_finished());
        let result = within(SLIP.get() * 4, "the interrupt", || {
            interrupt.clone().interrupt();
            waiting.join().unwrap()
        });
        assert!(matches!(result, Err(Error::Interrupted { lock }) if lock == stage.whole_name()));
    });
    assert_eq!(stage.holders(), held);
    holder.unlock().unwrap();
    // The interrupted thread has left the queue, so no thread waits behind it.
    on_another_thread(|| {
        assert!(waiter.try_lock(SOON.get(), Lease::RENEWED).unwrap());
        waiter.unlock().unwrap();
    });
}

pub fn a_wait_for_a_local_thread_is_interrupted(stage: &Stage) {
    let lock = stage.lock();
    is_interrupted(stage, &*lock, &*lock);
}

pub fn a_wait_for_another_client_is_interrupted(stage: &Stage) {
    let (ours, theirs) = (stage.lock(), stage.lock());
    is_interrupted(stage, &*ours, &*theirs);
}

/// Also if the lock is free: an interrupt between two calls is not lost.
pub fn an_interrupt_before_the_call_is_not_lost(stage: &Stage) {
    let lock = stage.lock();
    let interrupt = Interrupt::new();
    interrupt.interrupt();
    for _ in 0..2 {
        let result = lock.lock_interruptibly(Lease::RENEWED, &interrupt);
        assert_matches!(result, Err(Error::Interrupted { .. }));
        let result = lock.acquire_interruptibly(Lease::RENEWED, &interrupt);
        assert_matches!(result, Err(Error::Interrupted { .. }));
        let result = lock.try_acquire_interruptibly(SOON.get(), Lease::RENEWED, &interrupt);
        assert_matches!(result, Err(Error::Interrupted { .. }));
        assert_eq!((lock.hold_count(), stage.count()), (0, 0));
    }
}

/// An interrupted thread that leaves the queue passes its ticket on.
pub fn threads_behind_an_interrupted_thread_get_the_lock(stage: &Stage) {
    let lock = stage.lock();
    lock.lock().unwrap();
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let first = scope.spawn(|| lock.lock_interruptibly(Lease::RENEWED, &interrupt));
        throughout(A_WHILE.get(), "the waiter waits", || !first.is_finished());
        let second = scope.spawn(|| lock.acquire().and_then(LockGuard::unlock));
        throughout(A_WHILE.get(), "the waiter waits", || !second.is_finished());
        // At the moment at which it gets the ticket.
        interrupt.interrupt();
        lock.unlock().unwrap();
        let interrupted = first.join().unwrap();
        assert_matches!(interrupted, Err(Error::Interrupted { .. }));
        second.join().unwrap().unwrap();
    });
    assert_eq!(stage.count(), 0);
}
