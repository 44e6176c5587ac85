//! Several permits that one call acquires, and permits that are released by their ids.

use leasehold::Result;

use super::view::View;
use super::{counts, now, semaphore};
use crate::support::prelude::*;

#[test]
fn a_guard_has_all_of_its_permits_or_none() {
    let server = Server::start();
    let name = unique("together");
    let semaphore = semaphore(&server, &name, 5);
    let renewed = Lease::RENEWED;
    for number in [0, 1_001, u32::MAX] {
        assert_error!(semaphore.acquire_many(number, renewed), InvalidArgument);
    }
    let one = semaphore.acquire().unwrap();
    let four = semaphore.acquire_many(4, renewed).unwrap();
    let ids: HashSet<&str> = four.ids().chain(one.ids()).collect();
    let leases = View::of(&server, &name).leases();
    let in_redis: HashSet<&str> = leases.iter().map(|(id, _)| &**id).collect();
    assert_eq!(ids, in_redis, "each permit has an id, as in Redisson");
    assert_eq!(
        (four.id(), counts(&semaphore)),
        (four.ids().next().unwrap(), (0, 5))
    );
    four.release().unwrap();
    let try_many = |number| {
        semaphore
            .try_acquire_many(number, Duration::ZERO, renewed)
            .unwrap()
    };
    assert!(try_many(5).is_none() && counts(&semaphore) == (4, 5));
    let [two, again] = [(); 2].map(|()| try_many(2).unwrap());
    two.confirm().unwrap();
    again.extend(LEASE.get() * 30).unwrap();
    // This does not shorten it.
    again.extend(LEASE.get() * 2).unwrap();
    let all: Vec<f64> = View::of(&server, &name)
        .leases()
        .iter()
        .map(|(_, ends)| *ends)
        .collect();
    let far = View::of(&server, &name).clock() + LEASE.get().as_millis() as f64 * 20.0;
    assert_eq!(
        all.iter().filter(|ends| **ends > far).count(),
        2,
        "both are extended"
    );
    drop([two, again, one]);
    assert_eq!(counts(&semaphore), (5, 5));
    let interrupt = Interrupt::new();
    let all = semaphore
        .acquire_many_interruptibly(5, renewed, &interrupt)
        .unwrap();
    interrupt.interrupt();
    let more = semaphore.try_acquire_many_interruptibly(2, Duration::MAX, renewed, &interrupt);
    assert_error!(more, Interrupted);
    all.release().unwrap();
    semaphore.set_permits(1_000).unwrap();
    let most = semaphore.acquire_many(1_000, renewed).unwrap();
    most.confirm().unwrap();
    most.release().unwrap();
    assert_eq!(counts(&semaphore), (1_000, 1_000));
}

/// It waits until enough permits are available, and keeps those that come later waiting.
#[test]
fn a_call_for_several_permits_gets_its_turn_beside_another_client() {
    let server = Server::start();
    let name = unique("wanted");
    let theirs = semaphore(&server, &name, 3);
    let ours = client(&server.url()).leased_semaphore(&name);
    let held = [(); 3].map(|()| now(&theirs).unwrap());
    thread::scope(|scope| {
        let both = scope.spawn(|| ours.acquire_many(2, Lease::RENEWED).unwrap());
        eventually("it waits", || {
            let line: i64 =
                server.ask(redis::cmd("EXISTS").arg(format!("leasehold_line:{{{name}}}")));
            line == 1
        });
        let [first, second, third] = held;
        first.release().unwrap();
        second.release().unwrap();
        let both = both.join().unwrap();
        assert_eq!((both.ids().count(), counts(&ours)), (2, (0, 3)));
        third.release().unwrap();
    });
    assert_eq!(counts(&ours), (3, 3));
}

/// The guard is lost with the first of its permits. The watchdog renews all of them.
#[test]
fn permits_of_a_guard_are_renewed_and_lost_together() {
    let server = Server::start();
    let name = unique("lost together");
    let semaphore = semaphore(&server, &name, 3);
    let guard = semaphore.acquire_many(3, Lease::RENEWED).unwrap();
    let mut view = View::of(&server, &name);
    let ends = |view: &mut View| {
        view.leases()
            .into_iter()
            .map(|(_, ends)| ends)
            .fold(f64::MAX, f64::min)
    };
    let before = ends(&mut view);
    eventually("all are renewed", || ends(&mut view) > before);
    view.release_as_java(guard.ids().last().unwrap());
    let reason = guard.lost().recv_timeout(SOON.get());
    assert_eq!(reason, Ok(LostReason::Deleted));
    assert_eq!(counts(&semaphore), (1, 3));
}

/// Ends a guard. Returns the result, if there is one.
type End = fn(PermitGuard) -> Option<Result<()>>;

/// However the guard ends, and whether its loss is known before.
#[test]
fn the_other_permits_of_a_lost_guard_are_available_when_it_ends() {
    let server = Server::start();
    let is_lost = |result: Result<()>| assert_error!(result, Lost);
    let ends: [End; 3] = [
        |guard| Some(guard.release()),
        |guard| Some(guard.into_token().map(drop)),
        |guard| {
            drop(guard);
            None
        },
    ];
    for (end, is_noticed) in ends.into_iter().flat_map(|end| [(end, false), (end, true)]) {
        let name = unique("partly lost");
        let semaphore = semaphore(&server, &name, 3);
        let guard = semaphore.acquire_many(3, long()).unwrap();
        View::of(&server, &name).release_as_java(guard.ids().last().unwrap());
        if is_noticed {
            assert_eq!(
                guard.lost().recv_timeout(SOON.get()),
                Ok(LostReason::Deleted)
            );
        }
        end(guard).map(is_lost);
        eventually("the others are available", || counts(&semaphore) == (3, 3));
    }
}

#[test]
fn a_permit_is_released_by_its_id_in_any_process() {
    let server = Server::start();
    let name = unique("by id");
    let theirs = semaphore(&server, &name, 2);
    let ours = client(&server.url()).leased_semaphore(&name);
    let guard = theirs.acquire().unwrap();
    assert!(ours.release(guard.id()).unwrap());
    assert!(
        !ours.release(guard.id()).unwrap(),
        "it has no permit any more"
    );
    assert_eq!(counts(&ours), (2, 2));
    assert_eq!(
        guard.lost().recv_timeout(SOON.get()),
        Ok(LostReason::Deleted)
    );
    // The permit of a Java program that did not release it.
    let mut view = View::of(&server, &name);
    view.lease_until([7; 16], 922_337_203_685_477.0);
    assert_eq!(counts(&ours), (1, 2));
    assert!(ours.release(&"07".repeat(16)).unwrap());
    assert_eq!(counts(&ours), (2, 2));
    for id in ["", "07", "not an id of 32 characters, but 8"] {
        assert_error!(ours.release(id), InvalidArgument);
    }
}
