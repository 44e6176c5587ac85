//! No message arrives.

use crate::support::prelude::*;

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
