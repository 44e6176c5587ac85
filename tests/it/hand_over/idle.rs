//! Grants that no thread uses: taken again, of no use for the next call, or lost.

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
