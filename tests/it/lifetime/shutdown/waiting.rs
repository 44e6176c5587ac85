//! Threads that wait while their client is shut down.

use leasehold::Result;

use super::{is_shut_down, lasting};
use crate::support::prelude::*;

type Wait = Box<dyn FnOnce() -> Result<()> + Send>;

/// Each of these waits on a thread of its own, until its client is shut down. All of them fail with
/// that error.
#[track_caller]
fn assert_woken(clients: &[&LockClient], waits: Vec<Wait>, are_waiting: impl Fn() -> bool) {
    thread::scope(|scope| {
        let waiting: Vec<_> = waits
            .into_iter()
            .map(|wait| {
                let (sender, tasks) = bounded(1);
                let thread = scope.spawn(move || {
                    sender.send(Task::current()).unwrap();
                    wait()
                });
                (tasks.recv().unwrap(), thread)
            })
            .collect();
        eventually("all threads to wait", || {
            are_waiting() && waiting.iter().all(|(task, _)| task.is_asleep())
        });
        within(SOON.get(), "the wake-up", || {
            for client in clients {
                client.shutdown(SOON.get()).unwrap();
            }
            for (at, (_, thread)) in waiting.into_iter().enumerate() {
                let result = thread.join().unwrap();
                assert!(is_shut_down(&result), "number {at}: {result:?}");
            }
        });
    });
}

#[test]
fn threads_that_wait_for_any_kind_are_woken() {
    let server = Server::start();
    let holder = lasting(&server.url());
    holder.reentrant_lock("plain").lock().unwrap();
    holder.fair_lock("fair").lock().unwrap();
    holder.read_write_lock("shared").write().lock().unwrap();
    holder.reentrant_lock("b").lock().unwrap();
    let permits = holder.leased_semaphore("permits");
    permits.try_set_permits(1).unwrap();
    let _permit = permits.acquire().unwrap();
    holder.semaphore("slots").try_set_permits(1).unwrap();
    holder.semaphore("slots").acquire(1).unwrap();
    holder.count_down_latch("start").try_set_count(1).unwrap();

    let client = lasting(&server.url());
    let plain = client.reentrant_lock("plain");
    let (fair, shared) = (client.fair_lock("fair"), client.read_write_lock("shared"));
    let (read, write) = (shared.read(), shared.write());
    let both = client.multi_lock(["a", "b"]);
    let leased = client.leased_semaphore("permits");
    let (slots, start) = (client.semaphore("slots"), client.count_down_latch("start"));
    let timed = plain.clone();
    let interruptible = plain.clone();
    let waits: Vec<Wait> = vec![
        // The first two listen and wait in the local queue.
        Box::new(move || plain.lock()),
        Box::new(move || timed.try_lock(SOON.get() * 6, Lease::RENEWED).map(drop)),
        Box::new(move || interruptible.lock_interruptibly(Lease::RENEWED, &Interrupt::new())),
        Box::new(move || fair.lock()),
        Box::new(move || read.lock()),
        Box::new(move || write.lock()),
        Box::new(move || both.lock()),
        Box::new(move || leased.acquire().map(drop)),
        Box::new(move || slots.acquire(1)),
        Box::new(move || start.wait()),
    ];
    assert_woken(&[&client], waits, || true);
    // The locks of the other client are as before, and no place in a queue is left.
    for name in ["plain", "fair", "b"] {
        assert!(holder.reentrant_lock(name).is_locked().unwrap(), "{name}");
    }
    assert!(!holder.reentrant_lock("a").is_locked().unwrap());
    let queue = redis::cmd("EXISTS")
        .arg("redisson_lock_queue:{fair}")
        .clone();
    assert!(!server.ask::<bool>(&queue));
}

#[test]
fn a_thread_that_waits_on_a_condition_is_woken_without_the_lock() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.reentrant_lock("lock");
    let wait: Wait = Box::new(move || {
        let guard = lock.acquire()?;
        let result = lock.condition("ready").wait();
        assert_eq!(lock.hold_count(), 0);
        assert_eq!(guard.lost().recv(), Ok(LostReason::ShutDown));
        for lost in [guard.check(), guard.unlock()] {
            assert_lost(&lost, LostReason::ShutDown);
        }
        result
    });
    assert_woken(&[&client], vec![wait], || {
        let keys = server.keys();
        !keys.is_empty() && !keys.iter().any(|key| key == "lock")
    });
    let keys = server.keys();
    assert!(!keys.iter().any(|key| key == "lock"), "{keys:?}");
}

#[test]
fn a_thread_that_waits_for_a_redlock_is_woken_by_any_of_its_clients() {
    let servers = Independent::start(3);
    let clients = || -> Vec<LockClient> { servers.urls().iter().map(|url| lasting(url)).collect() };
    let (holders, waiters) = (clients(), clients());
    let held = RedLock::new(&holders, "lock");
    held.lock().unwrap();
    let lock = RedLock::new(&waiters, "lock");
    let wait: Wait = Box::new(move || lock.lock());
    assert_woken(&[&waiters[2]], vec![wait], || true);
    held.unlock().unwrap();
}
