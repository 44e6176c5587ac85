//! The server hangs or restarts: calls end in time, and losses are told.

use std::thread;
use std::time::Duration;

use leasehold::{Lease, LeasedSemaphore, LostReason};

use super::counts;
use crate::faults::proxied_server::{is_not_released, is_unavailable};
use crate::support::server::Server;
use crate::support::timing::{LEASE, Millis, SLIP, SOON, eventually, throughout, within};
use crate::support::{builder, client, unique};

/// The time that the documentation allows a call beyond its timeouts.
const GRACE: Duration = Duration::from_millis(250);

/// Longer than a restart of the server.
const LONG: Millis = Millis(3_000);

fn timeout() -> Duration {
    SLIP.get()
}

fn semaphore(server: &Server, lease: Duration, permits: u32) -> LeasedSemaphore {
    let builder = builder(&server.url())
        .watchdog_lease(lease)
        .command_timeout(timeout())
        .connect_timeout(timeout());
    let semaphore = builder.build().unwrap().leased_semaphore(&unique("hang"));
    semaphore.try_set_permits(permits).unwrap();
    semaphore
}

#[test]
fn while_the_server_hangs_every_call_ends_in_time_and_no_permit_is_lost_for_long() {
    let server = Server::start();
    let semaphore = semaphore(&server, LEASE.get() * 4, 4);
    let [first, second, third] = [(); 3].map(|()| semaphore.acquire().unwrap());
    server.pause();
    let bound = timeout() + GRACE + SLIP.get();
    within(bound, "try_acquire_now", || {
        assert!(is_unavailable(&semaphore.try_acquire_now()));
    });
    within(bound + timeout(), "try_acquire", || {
        let result = semaphore.try_acquire(timeout() * 2, Lease::RENEWED);
        assert!(is_unavailable(&result), "{result:?}");
    });
    within(bound, "confirm", || {
        assert!(is_unavailable(&first.confirm()));
    });
    within(bound, "extend", || {
        assert!(is_unavailable(&first.extend(SOON.get())));
    });
    within(bound, "available", || {
        assert!(is_unavailable(&semaphore.available()));
    });
    within(bound, "add_permits", || {
        assert!(is_unavailable(&semaphore.add_permits(0)));
    });
    within(bound, "drop", || drop(first));
    within(bound + timeout() * 2, "release", || {
        assert!(is_not_released(&second.release()));
    });
    server.resume();
    // All that was sent meanwhile is executed now, and undone.
    eventually("what was released to be available", || {
        semaphore.available().ok() == Some(3)
    });
    throughout(SLIP.get(), "the third is leased", || {
        counts(&semaphore) == (3, 4)
    });
    third.confirm().unwrap();
}

#[test]
fn after_a_hang_of_a_lease_the_holder_is_told_before_another_has_the_permit() {
    let server = Server::start();
    let semaphore = semaphore(&server, LEASE.get(), 1);
    let guard = semaphore.acquire().unwrap();
    let other = client(&server.url()).leased_semaphore(semaphore.name());
    server.pause();
    thread::scope(|scope| {
        scope.spawn(|| {
            let next = other.acquire().unwrap();
            assert!(guard.is_lost(), "at the latest now");
            next.confirm().unwrap();
        });
        let lost = guard.lost().recv_timeout(LEASE.get() + SLIP.get());
        assert_eq!(lost, Ok(LostReason::Expired));
        server.resume();
    });
    drop(guard);
    assert_eq!(counts(&other), (1, 1));
}

#[test]
fn a_restart_without_the_data_is_a_loss() {
    let server = Server::start();
    let semaphore = semaphore(&server, LONG.get(), 2);
    let guard = semaphore.acquire().unwrap();
    let other = client(&server.url()).leased_semaphore(semaphore.name());
    server.restart_empty();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| other.acquire().unwrap().confirm());
        let lost = guard.lost().recv_timeout(LONG.get());
        assert_eq!(lost, Ok(LostReason::Deleted));
        assert_eq!(counts(&semaphore), (0, 0));
        drop(guard);
        assert_eq!(counts(&semaphore), (0, 0), "no permit was added");
        assert!(!waiter.is_finished());
        assert!(semaphore.try_set_permits(1).unwrap());
        within(SOON.get() / 4, "a permit", || {
            waiter.join().unwrap().unwrap();
        });
    });
    assert_eq!(counts(&semaphore), (1, 1));
}

#[test]
fn a_restart_with_the_data_changes_nothing() {
    let server = Server::options().keeps_data().start();
    let semaphore = semaphore(&server, LONG.get(), 2);
    let guard = semaphore.acquire().unwrap();
    server.restart();
    throughout(LONG.get(), "the permit", || guard.check().is_ok());
    guard.confirm().unwrap();
    guard.release().unwrap();
    assert_eq!(counts(&semaphore), (2, 2));
}

/// The scripts are loaded again.
#[test]
fn a_server_that_forgets_its_scripts_loses_no_permit() {
    let server = Server::start();
    let semaphore = semaphore(&server, LEASE.get(), 2);
    let guard = semaphore.acquire().unwrap();
    throughout(LEASE.get() * 2, "the permit", || {
        let mut script = redis::cmd("SCRIPT");
        server.ask::<()>(script.arg("FLUSH"));
        guard.check().is_ok()
    });
    drop(semaphore.acquire().unwrap());
    guard.release().unwrap();
    assert_eq!(counts(&semaphore), (2, 2));
}
