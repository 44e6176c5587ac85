//! Locks that their holder abandons without a crash.

use crate::support::prelude::*;

/// With leases long enough for a busy machine.
fn abandoned_client(url: &str) -> LockClient {
    let builder = builder(url).watchdog_lease(LEASE.get() * 3);
    builder.build().expect("the settings are valid")
}

/// A guard works like a handle: the watchdog renews the lock, and the guard unlocks it. Without a
/// guard and without a handle, no thread can unlock the lock: its lease runs out.
#[test]
fn a_lock_whose_last_handle_is_dropped_ends_with_its_lease_and_a_guard_is_a_handle() {
    let server = Server::start();
    let [guarded, unguarded] = ["guarded", "unguarded"].map(unique);
    let clients = [(); 2].map(|()| abandoned_client(&server.url()));
    let guard = clients[0].reentrant_lock(&guarded).acquire();
    let guard = guard.expect("it is free");
    let lock = clients[1].reentrant_lock(&unguarded);
    lock.lock().expect("it is free");
    lock.lock().expect("it is held by this thread");
    within(SLIP.get(), "the drop of the last handle", || {
        drop((clients, lock));
    });
    assert!(!in_redis::is_free(&server, &unguarded), "its lease runs");
    let left = in_redis::time_to_live(&server, &unguarded);
    within(left + SLIP.get(), "the end of the lease", || {
        eventually("it to be free", || in_redis::is_free(&server, &unguarded));
    });
    throughout(LEASE.get() * 3, "held", || {
        guard.check().is_ok() && !in_redis::is_free(&server, &guarded)
    });
    within(SLIP.get(), "the unlock and the end of the client", || {
        guard.unlock().expect("it is held");
    });
    assert!(in_redis::is_free(&server, &guarded));
    eventually("all connections to be closed", || {
        let list: String = server.ask(redis::cmd("CLIENT").arg("LIST"));
        list.lines().count() <= 1
    });
}

/// The watchdog has taken the grant out of its targets, and its release has no reply yet. The lease
/// is much longer than the test.
#[test]
fn a_release_under_way_is_repeated_when_the_client_is_dropped() {
    let redis = ProxiedServer::new();
    let builder = redis.builder(SLIP.get()).linger(A_WHILE.get());
    let client = builder.watchdog_lease(SOON.get() * 6).build().unwrap();
    let name = unique("lingers");
    let is_sent = redis.fault_once("release", &Fault::SwallowRequest);
    let guard = client.reentrant_lock(&name).acquire();
    guard.and_then(LockGuard::unlock).expect("it is free");
    eventually("the release", || is_sent.load(Ordering::SeqCst));
    assert!(!in_redis::is_free(&redis.server, &name));
    // One command timeout for the release that is under way, and one for the last attempt.
    within(SLIP.get() * 3, "the drop of the last handle", || {
        drop(client);
    });
    assert!(in_redis::is_free(&redis.server, &name), "a lease is left");
}
