//! No message arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Lease, LockClient};

use crate::faults::in_redis;
use crate::support::proxy::{self, Proxy};
use crate::support::server::Server;
use crate::support::timing::{LEASE, SLIP, SOON, eventually, millis};
use crate::support::{builder, client, unique};

/// A client that receives no message, not even its own.
fn without_messages(proxy: &Proxy) -> (LockClient, Arc<AtomicU64>) {
    let dropped = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&dropped);
    proxy.on_message(move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
        false
    });
    (client(&proxy.url()), dropped)
}

/// Each of several locks is held until it is unlocked or its lease ends. A waiter without messages
/// gets it at the end of the lease that Redis reported.
#[test]
#[ignore = "soak"]
fn a_waiter_without_messages_has_the_lock_at_the_end_of_the_lease() {
    let server = Server::start();
    let proxy = proxy::before(&server.address());
    let (waiter, dropped) = without_messages(&proxy);
    // Without messages the subscriber thread, too, looks up only a second later.
    let long = LEASE.get() * 3;
    let holder = builder(&server.url()).watchdog_lease(long).build();
    let holder = holder.expect("the settings are valid");
    for (lease, given_back) in [
        (Lease::RENEWED, true),
        (Lease::fixed(long), true),
        (Lease::fixed(long), false),
    ] {
        let name = unique("without_messages");
        let guard = holder.reentrant_lock(&name);
        let guard = guard.try_acquire(Duration::ZERO, lease);
        let guard = guard.expect("a reply").expect("it is free");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let lock = waiter.reentrant_lock(&name);
                assert!(lock.try_lock(SOON.get(), Lease::RENEWED)?);
                let got = Instant::now();
                lock.unlock().map(|()| got)
            });
            eventually("it waits", || in_redis::listeners(&server, &name) == 1);
            let before = dropped.load(Ordering::Relaxed);
            let last = Instant::now();
            if given_back {
                guard.unlock().expect("it is held");
                eventually("the message to be lost", || {
                    dropped.load(Ordering::Relaxed) > before
                });
            }
            let got = waiting.join().expect("no panic").expect("the lock");
            let took = got.saturating_duration_since(last);
            assert!(took < long + SLIP.get(), "{took:?}");
        });
    }
}

/// No client receives a message, and the lock still changes hands.
#[test]
fn a_lock_changes_hands_without_messages() {
    let server = Server::start();
    let proxies = [0, 1].map(|_| proxy::before(&server.address()));
    let clients = proxies.each_ref().map(|proxy| without_messages(proxy).0);
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
