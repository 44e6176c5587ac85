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
