//! Those who wait get it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Lease, Lock};

use super::Stage;
use crate::support::timing::{A_WHILE, SOON, eventually, millis, throughout};
use crate::support::traffic::Monitor;

/// A lease that plays no part: whoever gets the lock before its end was woken.
fn long() -> Lease {
    Lease::fixed(SOON.get() * 6)
}

/// `waiter` takes the lock some time after `holder` had it, and not before it gives it back.
fn is_handed_over(
    stage: &Stage,
    holder: &dyn Lock,
    waiter: &dyn Lock,
    wait: impl FnOnce(&dyn Lock) + Send,
) {
    holder.lock_with(long()).unwrap();
    let taken = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            wait(waiter);
            taken.store(true, Ordering::SeqCst);
            waiter.unlock().unwrap();
        });
        throughout(A_WHILE.get(), "the holder keeps it", || {
            !taken.load(Ordering::SeqCst)
        });
        holder.unlock().unwrap();
    });
    assert!(taken.load(Ordering::SeqCst));
    assert_eq!(stage.count(), 0);
}

pub fn a_thread_at_home_gets_it_on_release(stage: &Stage) {
    let lock = stage.lock();
    is_handed_over(stage, &*lock, &*lock, |lock| lock.lock().unwrap());
}

pub fn another_client_gets_it_on_release(stage: &Stage) {
    let (ours, theirs) = (stage.lock(), stage.lock());
    is_handed_over(stage, &*ours, &*theirs, |lock| lock.lock().unwrap());
}

pub fn patience_is_rewarded_at_home(stage: &Stage) {
    let lock = stage.lock();
    is_handed_over(stage, &*lock, &*lock, |lock| {
        assert!(lock.try_lock(SOON.get(), Lease::RENEWED).unwrap());
    });
}

pub fn patience_is_rewarded_elsewhere(stage: &Stage) {
    let (ours, theirs) = (stage.lock(), stage.lock());
    is_handed_over(stage, &*ours, &*theirs, |lock| {
        assert!(lock.try_lock(SOON.get(), Lease::RENEWED).unwrap());
    });
}

pub fn patience_without_end_is_possible(stage: &Stage) {
    let (ours, theirs) = (stage.lock(), stage.lock());
    is_handed_over(stage, &*ours, &*theirs, |lock| {
        assert!(lock.try_lock(Duration::MAX, Lease::RENEWED).unwrap());
    });
}

/// The release is told, and the waiter asks no more often than it must.
pub fn a_wake_up_is_quick_and_cheap(stage: &Stage) {
    let (ours, theirs) = (stage.lock(), stage.lock());
    // Connections, scripts and the subscription are there from now on.
    is_handed_over(stage, &*ours, &*theirs, |lock| lock.lock().unwrap());
    let mut monitor = Monitor::of(stage.server());

    ours.lock_with(long()).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            theirs.lock().unwrap();
            let got = Instant::now();
            theirs.unlock().unwrap();
            got
        });
        let mut tries = monitor.commands().len();
        eventually("the other client to try", || {
            tries += monitor.commands().len();
            tries > stage.parts() as usize
        });
        throughout(A_WHILE.get(), "it waits", || !waiter.is_finished());
        let released = Instant::now();
        ours.unlock().unwrap();
        let late = waiter.join().unwrap().saturating_duration_since(released);
        assert!(late < millis(100), "woken after {late:?}");
    });
    // Ours: acquire, release. Theirs: an attempt or two, the one that succeeds, release; and it may
    // look at its subscription meanwhile.
    let sent = monitor.commands();
    assert!(sent.len() <= 6 * stage.parts() as usize, "{sent:?}");
}

/// Many threads of several clients, each once, and every one gets it.
pub fn everybody_gets_it(stage: &Stage) {
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
