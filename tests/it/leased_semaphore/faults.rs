//! Hangs, restarts and missing permissions while permits are leased.

use super::counts;
use crate::support::prelude::*;

fn semaphore(server: &Server, lease: Duration, permits: u32) -> LeasedSemaphore {
    let builder = builder(&server.url()).watchdog_lease(lease);
    let builder = builder.command_timeout(SLIP.get());
    let semaphore = builder.build().unwrap().leased_semaphore(&unique("hang"));
    semaphore.try_set_permits(permits).unwrap();
    semaphore
}

#[test]
fn after_a_hang_of_a_lease_the_holder_is_notified_before_another_has_the_permit() {
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

/// Redis refuses commands that need memory, and a renewal is none.
#[test]
fn without_memory_permits_are_renewed_and_released_but_not_acquired() {
    let server = Server::start();
    let semaphore = semaphore(&server, LEASE.get(), 3);
    let [first, second] = [(); 2].map(|()| semaphore.acquire().unwrap());
    server.run("CONFIG SET maxmemory 1");
    assert_error!(semaphore.try_acquire_now(), Redis);
    assert_eq!(counts(&semaphore), (1, 3), "as before");
    throughout(LEASE.get() * 2, "they are held", || {
        first.check().and_then(|()| second.check()).is_ok()
    });
    first.release().unwrap();
    server.run("CONFIG SET maxmemory 0");
    second.confirm().unwrap();
    assert_eq!(counts(&semaphore), (2, 3));
}
