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

/// A thread that ends without unlocking, also with a forgotten guard and as a reader. Its locks are
/// not unlocked, because what it began may go on elsewhere, but they are not renewed, either. A
/// permit belongs to no thread.
#[test]
fn a_lock_whose_thread_has_ended_ends_with_its_lease_and_is_logged_once() {
    logs::keep();
    let server = Server::start();
    let client = abandoned_client(&server.url());
    let events = client.events();
    let names = ["unlocked", "forgotten", "read"].map(unique);
    let semaphore = client.leased_semaphore(&unique("permits"));
    semaphore.try_set_permits(1).expect("it is new");
    let permit = thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let permit = semaphore.acquire().expect("it is free");
            client.reentrant_lock(&names[0]).lock().expect("it is free");
            let guard = client.reentrant_lock(&names[1]).acquire();
            std::mem::forget(guard.expect("it is free"));
            let reader = client.read_write_lock(&names[2]).read();
            reader.lock().expect("it is free");
            permit
        });
        thread.join().expect("no panic")
    });
    let warnings = |name| {
        let mut lines = logs::warnings_about(name);
        lines.retain(|line| line.contains("a thread ended"));
        lines.len()
    };
    for name in &names {
        assert!(!in_redis::is_free(&server, name), "{name} was unlocked");
        eventually("the warning", || warnings(name) == 1);
    }
    for name in &names {
        // It waits behind the dead thread of its client.
        let lock = client.reentrant_lock(name);
        let wait = LEASE.get() * 3 + SLIP.get();
        if *name == names[2] {
            eventually("its end", || in_redis::is_free(&server, name));
        } else {
            let guard = lock.try_acquire(wait, Lease::RENEWED);
            let guard = guard.expect("Redis replies").expect("the lease has ended");
            guard.unlock().expect("it is held");
        }
        assert_eq!(warnings(name), 1);
    }
    let mut lost = HashSet::new();
    eventually("the events", || {
        lost.extend(lost_events(&events));
        lost == names
            .iter()
            .map(|name| (name.clone(), LostReason::Expired))
            .collect()
    });
    assert_eq!(client.stats().held, 1, "the permit");
    permit.check().expect("it is renewed after its first lease");
    assert_eq!(warnings(semaphore.name()), 0);
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
