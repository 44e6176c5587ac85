//! The holder of a permit that is lost is notified.

use super::view::View;
use super::{counts, semaphore};
use crate::support::prelude::*;

/// How another program takes a permit away.
fn taken_away(server: &Server, name: &str, id: &str, how: &str) {
    let mut view = View::of(server, name);
    let key = view.leases_key();
    match how {
        "the leases are deleted" => view.ask::<()>(redis::cmd("DEL").arg(key)),
        "both keys are deleted" => view.ask::<()>(redis::cmd("DEL").arg(key).arg(name)),
        "all keys are deleted" => view.ask::<()>(&redis::cmd("FLUSHALL")),
        _ => view.release_as_java(id),
    }
}

#[test]
fn a_lost_permit_is_notified_within_a_lease() {
    let server = Server::start();
    for how in [
        "the leases are deleted",
        "both keys are deleted",
        "all keys are deleted",
        "another program releases it",
    ] {
        let client = client(&server.url());
        let events = client.events();
        let name = unique("lost");
        let semaphore = client.leased_semaphore(&name);
        semaphore.try_set_permits(2).unwrap();
        let guard = semaphore.acquire().unwrap();
        let start = Instant::now();
        taken_away(&server, &name, guard.id(), how);
        let reason = guard.lost().recv_timeout(SOON.get());
        assert_eq!(reason, Ok(LostReason::Deleted), "{how}");
        let took = start.elapsed();
        assert!(took < LEASE.get() + SLIP.get(), "{how}: {took:?}");
        assert!(guard.is_lost() && guard.remaining().is_zero());
        match events.recv_timeout(SOON.get()) {
            Ok(LockEvent::Lost { lock, reason }) => {
                assert_eq!((&*lock, reason), (&*name, LostReason::Deleted));
            }
            other => panic!("{how}: {other:?}"),
        }
        assert_eq!(client.stats().lost, 1);
        let released = guard.release();
        assert_error!(released, Lost, "{how}");
    }
}

/// Redis does not know how many permits there were, so their number has to be set again.
#[test]
fn a_semaphore_that_has_lost_its_leases_says_so_and_can_be_repaired() {
    logs::keep();
    let server = Server::start();
    let name = unique("lost leases");
    let warnings = || {
        let mut warnings = logs::warnings_about(&name);
        warnings.retain(|warning| warning.contains("no permits"));
        warnings
    };
    let ours = semaphore(&server, &name, 2);
    let theirs = client(&server.url()).leased_semaphore(&name);
    let held = [(); 2].map(|()| ours.acquire().unwrap());
    let attempt = theirs.try_acquire(A_WHILE.get(), Lease::RENEWED);
    assert!(attempt.unwrap().is_none());
    assert_eq!(warnings(), [""; 0], "the permits are leased");

    taken_away(&server, &name, held[0].id(), "the leases are deleted");
    assert_eq!(counts(&theirs), (0, 0));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| theirs.acquire().unwrap());
        eventually("a warning", || !warnings().is_empty());
        held.iter().for_each(|guard| {
            guard.lost().recv_timeout(SOON.get()).unwrap();
        });
        theirs.set_permits(2).unwrap();
        let permit = within(SLIP.get(), "the wake-up", || waiting.join().unwrap());
        assert_eq!(counts(&ours), (1, 2));
        permit.release().unwrap();
    });
    let warnings = warnings();
    assert!(
        warnings.len() == 1 && warnings[0].contains("set_permits"),
        "{warnings:?}"
    );
    // What was lost is not given back a second time.
    drop(held);
    assert_eq!(counts(&ours), (2, 2));
}
