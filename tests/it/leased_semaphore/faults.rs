//! Hangs, restarts and missing permissions while permits are leased.

use super::view::View;
use super::{counts, now};
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

/// A permission that is missing in the middle of a script leaves no half of a change.
#[test]
fn a_missing_permission_changes_nothing() {
    let server = Server::start();
    let name = unique("acl");
    let url = server.url().replace("://", "://worker:secret@");
    let semaphore = builder(&url).build().unwrap().leased_semaphore(&name);
    let allow = |rule: &str| {
        server.run(&format!(
            "ACL SETUSER worker reset on >secret ~* &* +@all {rule}"
        ));
    };
    allow("+@all");
    semaphore.try_set_permits(3).unwrap();
    let mut view = View::of(&server, &name);
    let total =
        |view: &mut View| view.available().unwrap() + i64::try_from(view.leases().len()).unwrap();
    view.lease_as_java([1; 16], -1.0);
    let mut held = now(&semaphore);
    for command in ["zadd", "decrby", "incrby", "zrem"] {
        view.lease_as_java([1; 16], -1.0);
        let before = (view.available(), view.leases());
        allow(&format!("-{command}"));
        assert_error!(semaphore.try_acquire_now(), Redis, "{command}");
        assert_eq!(total(&mut view), 3, "{command}");
        if ["incrby", "zrem"].contains(&command) {
            assert_eq!((view.available(), view.leases()), before, "{command}");
        }
        if let Some(guard) = held.take_if(|_| command == "incrby") {
            assert!(guard.release().is_err());
            assert_eq!(total(&mut view), 3);
        }
        allow("+@all");
        if held.is_none() {
            // The watchdog repeats the release, and the next round compares what it finds.
            eventually("the release in the background", || {
                view.leases().iter().all(|(id, _)| id.starts_with("0101"))
            });
        }
        drop(now(&semaphore).unwrap());
    }
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
