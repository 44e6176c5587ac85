//! Every method of the trait `Lock` is also an inherent method of every lock type, so that no
//! import of the trait is needed.

use std::time::Duration;

use leasehold::{Error, FencedGuard, Interrupt, Lease, LockGuard, RedLock, ReentrantLock, Result};

use crate::support::server::Server;
use crate::support::{assert_matches, client, on_another_thread};

/// A function that uses every method of `$lock`, whose guards are `$guard`.
macro_rules! uses_every_method {
    ($function:ident, $lock:ty, $guard:ty) => {
        fn $function(lock: &$lock, name: &str) {
            let lease = Lease::fixed(Duration::from_secs(60));
            let (no_wait, interrupt) = (Duration::ZERO, Interrupt::new());
            assert_eq!(lock.name(), name);
            assert!(!lock.is_locked().unwrap() && lock.remaining_lease().unwrap().is_none());

            let levels: [Result<bool>; 5] = [
                lock.lock().map(|()| true),
                lock.lock_with(lease).map(|()| true),
                lock.try_lock(no_wait, lease),
                lock.lock_interruptibly(lease, &interrupt).map(|()| true),
                lock.try_lock_interruptibly(no_wait, lease, &interrupt),
            ];
            assert!(levels.into_iter().all(|taken| taken.unwrap()));
            assert!(lock.is_held_by_current_thread() && lock.hold_count() == 5);
            for _ in 0..5 {
                lock.unlock().unwrap();
            }

            let guards: [$guard; 6] = [
                lock.acquire().unwrap(),
                lock.acquire_with(lease).unwrap(),
                lock.try_acquire(no_wait, lease)
                    .unwrap()
                    .expect("it is held"),
                lock.try_acquire_now().unwrap().expect("it is held"),
                lock.acquire_interruptibly(lease, &interrupt).unwrap(),
                lock.try_acquire_interruptibly(no_wait, lease, &interrupt)
                    .unwrap()
                    .expect("it is held"),
            ];
            assert!(lock.hold_count() == 6 && lock.is_locked().unwrap());
            // The longest lease counts.
            assert!(guards[0].remaining() > Duration::from_secs(30));
            on_another_thread(|| assert!(lock.try_acquire_now().unwrap().is_none()));
            interrupt.interrupt();
            let interrupted =
                on_another_thread(|| lock.acquire_interruptibly(lease, &interrupt).map(drop));
            assert_matches!(interrupted, Err(Error::Interrupted { .. }));
            drop(guards);
            assert!(lock.hold_count() == 0);
            let work = |guard: &$guard| (guard.remaining() > Duration::from_secs(30), 7);
            let (value, unlocked) = lock.with(lease, work).unwrap();
            unlocked.unwrap();
            assert!(value == (true, 7) && lock.hold_count() == 0);
        }
    };
}

uses_every_method!(of_a_reentrant_lock, ReentrantLock, LockGuard);
uses_every_method!(of_a_fenced_lock, leasehold::FencedLock, FencedGuard);
uses_every_method!(of_a_multi_lock, leasehold::MultiLock, LockGuard);
uses_every_method!(of_a_red_lock, RedLock, LockGuard);

#[test]
fn no_method_of_a_lock_needs_the_trait() {
    let servers = Server::start_all((0..3).map(|_| Server::options()).collect());
    let clients: Vec<_> = servers.iter().map(|one| client(&one.url())).collect();
    let client = &clients[0];
    of_a_reentrant_lock(&client.reentrant_lock("plain"), "plain");
    of_a_fenced_lock(&client.fenced_lock("fenced"), "fenced");
    of_a_multi_lock(&client.multi_lock(["b", "a"]), "a, b");
    of_a_red_lock(&RedLock::new(&clients, "red"), "red");
}
