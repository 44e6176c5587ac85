//! Owned guards under faults: their drop waits for nothing, and their locks do not stay behind.

use std::cell::RefCell;

use crate::support::prelude::*;

/// A client whose leases are too long to end during a test.
fn patient(builder: LockClientBuilder) -> LockClient {
    let builder = builder.watchdog_lease(SOON.get() * 6);
    builder.build().expect("the settings are valid")
}

fn owned(client: &LockClient, name: &str) -> OwnedGuard {
    let lock = client.reentrant_lock(name);
    lock.acquire_owned(Lease::RENEWED).expect("it is free")
}

#[test]
fn the_drop_does_not_wait_for_redis() {
    let proxied = ProxiedServer::new();
    let client = patient(proxied.builder(SOON.get()));
    let name = unique("owned");
    let guard = owned(&client, &name);
    let gate = proxied.hold_back_once("release");
    let second = owned(&client, &unique("owned"));
    within(SLIP.get(), "the drop", || drop(guard));
    eventually("the release to be sent", || gate.held() == 1);
    // Also while the watchdog waits for a reply.
    within(SLIP.get(), "the drop", || drop(second));
    assert!(!in_redis::is_free(&proxied.server, &name));
    gate.open();
    eventually("it to be free", || {
        in_redis::is_free(&proxied.server, &name)
    });
}

#[test]
fn a_release_of_a_dropped_guard_whose_reply_is_lost_is_repeated() {
    let proxied = ProxiedServer::new();
    let client = patient(proxied.builder(A_WHILE.get()));
    for fault in [Fault::SwallowRequest, Fault::SwallowReply] {
        let name = unique("owned");
        let guard = owned(&client, &name);
        let lost = proxied.fault_once("release", &fault);
        drop(guard);
        eventually("the release to be sent", || lost.load(Ordering::SeqCst));
        eventually("it to be free", || {
            in_redis::is_free(&proxied.server, &name)
        });
        pair(&client.reentrant_lock(&name));
    }
}

#[test]
fn a_guard_that_is_used_after_a_shutdown_was_lost_by_it() {
    let server = Server::start();
    let client = patient(builder(&server.url()));
    let names = ["unlocked", "dropped", "released"].map(unique);
    let [unlocked, dropped, released] = names.each_ref().map(|name| owned(&client, name));
    // The shutdown releases what the watchdog may not have released yet.
    drop(released);
    client.shutdown(SOON.get()).expect("Redis replies");
    assert_eq!(unlocked.lost().try_recv(), Ok(LostReason::ShutDown));
    let other = crate::support::client(&server.url());
    for name in &names {
        assert!(in_redis::is_free(&server, name), "{name}");
    }
    let next = owned(&other, &names[1]);
    within(SLIP.get(), "both ends", || {
        assert_lost(&unlocked.unlock(), LostReason::ShutDown);
        drop(dropped);
    });
    next.confirm().expect("it is held by the other client");
}

/// The destructors of thread-local variables run when much of the thread is gone.
#[test]
fn a_guard_that_is_sent_to_a_thread_that_ends_is_released() {
    thread_local! {
        static KEPT: RefCell<Vec<OwnedGuard>> = const { RefCell::new(Vec::new()) };
    }
    let server = Server::start();
    let client = patient(builder(&server.url()));
    let name = unique("owned");
    let guard = owned(&client, &name);
    let thread = thread::spawn(move || KEPT.with_borrow_mut(|kept| kept.push(guard)));
    thread.join().expect("no panic");
    eventually("it to be free", || in_redis::is_free(&server, &name));
}

#[test]
fn a_guard_that_is_the_last_of_its_client_is_released() {
    let server = Server::start();
    let client = patient(builder(&server.url()));
    let name = unique("owned");
    let guard = owned(&client, &name);
    drop(client);
    guard.confirm().expect("it is held");
    within(SLIP.get(), "the end of the client", || drop(guard));
    assert!(in_redis::is_free(&server, &name));
}
