//! Grants that no thread uses: taken again, of no use for the next call, or lost.

use crate::support::client as client_of;
use crate::support::prelude::*;

/// A client whose idle grants stay longer than a test waits for them.
fn lingering_for_long(url: &str, command_timeout: Duration) -> LockClient {
    let long = builder(url)
        .watchdog_lease(SOON.get() * 6)
        .linger(SOON.get() * 2)
        .command_timeout(command_timeout);
    long.build().unwrap()
}

fn is_there(server: &Server) -> bool {
    server.ask(redis::cmd("EXISTS").arg("lock"))
}

/// Returns when the watchdog has read what it has notes of.
fn await_pass_of_watchdog(client: &LockClient) {
    let renewals = client.stats().renewals;
    let short = Lease::RENEWED.lasting(millis(30));
    let other = client.reentrant_lock("other").acquire_with(short).unwrap();
    eventually("a pass of the watchdog", || {
        client.stats().renewals > renewals || other.is_lost()
    });
}

/// Makes a grant idle, and takes it again after `meanwhile`. Its lease is short.
fn taken_again(client: &LockClient, lock: &ReentrantLock, meanwhile: impl Fn()) -> LockGuard {
    let lease = Lease::RENEWED.lasting(LEASE.get());
    // That is possible only early in the lease, which a busy machine may miss.
    eventually_some("a grant to be taken again", || {
        let guard = lock.acquire_with(lease).unwrap();
        await_pass_of_watchdog(client);
        // The watchdog gets a note of the new count.
        lock.acquire_with(lease).unwrap().unlock().unwrap();
        guard.unlock().unwrap();
        meanwhile();
        let before = client.stats().acquisitions;
        let guard = lock.acquire_with(lease).unwrap();
        (client.stats().acquisitions == before).then_some(guard)
    })
}

/// Even if the watchdog knows it as a grant that it will release, and not renew.
#[test]
fn a_grant_that_is_taken_again_is_renewed() {
    let server = Server::start();
    let client = lingering_for_long(&server.url(), SOON.get());
    let lock = client.reentrant_lock("lock");
    let guard = taken_again(&client, &lock, || await_pass_of_watchdog(&client));
    throughout(LEASE.get() * 3, "held, and renewed", || {
        guard.check().is_ok() && is_there(&server)
    });
    guard.unlock().unwrap();
}

/// Long before the end of its lease, although the call cannot release it.
#[test]
fn a_grant_that_does_not_suit_is_released_in_the_background() {
    let proxied = ProxiedServer::new();
    let timeout = millis(200);
    let client = lingering_for_long(&proxied.proxy.url(), timeout);
    let lock = client.reentrant_lock("lock");
    pair(&lock);
    proxied.proxy.on_request(|request| {
        if request.runs("release") {
            return Fault::SwallowRequest;
        }
        Fault::Pass
    });
    let fixed = Lease::fixed(LEASE.get());
    let took = within(timeout * 2 + SLIP.get() * 4, "the call", || {
        lock.try_lock(Duration::ZERO, fixed)
    });
    assert!(!matches!(took, Ok(true)), "{took:?}");
    proxied.proxy.clear_rules();
    eventually("the release", || !is_there(&proxied.server));
}

/// Taking it sends no request, so the thread is notified as every other holder is. A grant that is
/// known to be lost is not taken again.
#[test]
fn the_loss_of_a_grant_that_is_taken_again_is_reported() {
    let server = Server::start();
    let client = lingering_for_long(&server.url(), SOON.get());
    let lock = client.reentrant_lock("lock");
    let by_watchdog = |guard: &LockGuard| {
        let bound = LEASE.get() * 2 / 3 + SLIP.get();
        guard.lost().recv_timeout(bound).unwrap()
    };
    let by_confirm = |guard: &LockGuard| match guard.confirm() {
        Err(Error::Lost { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    for notices in [&by_watchdog as &dyn Fn(&LockGuard) -> _, &by_confirm] {
        let guard = taken_again(&client, &lock, || {
            server.delete("lock");
        });
        assert_eq!(notices(&guard), LostReason::Deleted);
        assert_matches!(guard.unlock(), Err(Error::Lost { .. }));
        let before = client.stats().acquisitions;
        let guard = lock.acquire().unwrap();
        assert_eq!(client.stats().acquisitions, before + 1);
        guard.confirm().unwrap();
        guard.unlock().unwrap();
        server.delete("lock");
    }
}

#[test]
fn a_lost_grant_that_is_idle_until_its_deadline_is_acquired_again() {
    let server = Server::start();
    let client = builder(&server.url())
        .linger(LEASE.get() / 4)
        .build()
        .unwrap();
    let (lock, other) = (client.reentrant_lock("lock"), client_of(&server.url()));
    pair(&lock);
    assert!(other.force_unlock("lock").unwrap());
    let other = other.reentrant_lock("lock");
    other.lock().unwrap();
    eventually("the deadline", || client.stats().releases == 1);
    assert!(!lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    assert!(is_there(&server), "only the other client releases its lock");
    other.unlock().unwrap();
    lock.acquire().unwrap().confirm().unwrap();
    assert_eq!(client.stats().acquisitions, 2);
}
