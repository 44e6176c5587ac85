//! No message arrives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use leasehold::Lease;

use crate::faults::in_redis;
use crate::support::client;
use crate::support::proxy;
use crate::support::server::Server;
use crate::support::timing::{LEASE, SLIP, SOON, millis};
use crate::support::unique;

/// A waiter gets the lock at the end of the lease that Redis reported, although the lock is
/// unlocked before.
#[test]
#[ignore = "soak"]
fn a_waiter_without_messages_has_the_lock_at_the_end_of_the_lease() {
    let server = Server::start();
    let proxy = proxy::before(&server.address());
    proxy.on_message(|_, _| false);
    let (waiter, holder) = (client(&proxy.url()), client(&server.url()));
    // Without messages the subscriber thread, too, looks up only a second later.
    let long = LEASE.get() * 3;
    for lease in [Lease::RENEWED.lasting(long), Lease::fixed(long)] {
        let lock = holder.reentrant_lock(&unique("without_messages"));
        lock.lock_with(lease).expect("it is free");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let lock = waiter.reentrant_lock(lock.name());
                assert!(lock.try_lock(SOON.get(), Lease::RENEWED)?);
                let got = Instant::now();
                lock.unlock().map(|()| got)
            });
            in_redis::await_listeners(&server, lock.name(), 1);
            let released = Instant::now();
            lock.unlock().expect("it is held");
            let got = waiting.join().expect("no panic").expect("the lock");
            let took = got.saturating_duration_since(released);
            assert!(took < long + SLIP.get(), "{took:?}");
        });
    }
}

/// No client receives a message, not even its own, and the lock still changes hands.
#[test]
fn a_lock_changes_hands_without_messages() {
    let server = Server::start();
    let proxies = [0, 1].map(|_| proxy::before(&server.address()));
    let clients = proxies.each_ref().map(|proxy| {
        proxy.on_message(|_, _| false);
        client(&proxy.url())
    });
    let name = unique("without_messages");
    let lease = Lease::fixed(LEASE.get() / 2);
    let busy = AtomicBool::new(false);
    thread::scope(|scope| {
        for at in 0..4 {
            let lock = clients[at % 2].reentrant_lock(&name);
            let busy = &busy;
            scope.spawn(move || {
                for _ in 0..4 {
                    let taken = lock.try_acquire(SOON.get(), lease);
                    let guard = taken.expect("a reply").expect("it is free in time");
                    assert!(!busy.swap(true, Ordering::SeqCst), "two holders");
                    thread::sleep(millis(5));
                    busy.store(false, Ordering::SeqCst);
                    guard.unlock().expect("its lease still runs");
                }
            });
        }
    });
}
