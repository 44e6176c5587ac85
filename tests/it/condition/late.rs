//! Requests that Redis executes late, and places that are left behind.

use super::faults::Proxied;
use crate::support::prelude::*;

/// The first copy makes a place. The second finds that the lock is gone.
#[test]
fn a_wait_that_finds_its_lock_lost_leaves_no_place() {
    let test = Proxied::with_lease(LEASE.get() * 10);
    let guard = test.place.lock.acquire().unwrap();
    let (mut copies, mut redis) = (0, test.proxied.server.connection());
    let lock = test.name.clone();
    test.proxied.proxy.on_request(move |request| {
        copies += u32::from(request.runs("condition_wait"));
        match (request.runs("condition_wait"), copies) {
            (true, 1) => return Fault::SwallowReply,
            (true, 2) => redis::cmd("DEL").arg(&lock).exec(&mut redis).unwrap(),
            _ => {}
        }
        Fault::Pass
    });
    assert_error!(test.place.condition.wait_for(SOON.get()), Lost);
    test.await_no_place();
    assert!(guard.check().is_err());
}

/// Its old place, which is ended in the background, passes the notification on to its new one.
#[test]
fn a_thread_that_waits_again_is_notified_although_its_old_place_was_not_ended() {
    let test = Proxied::with_lease(LEASE.get() * 10);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let guard = test.place.lock.acquire().unwrap();
            let fault = Fault::SwallowRequest;
            test.proxied.fault_always("condition_end", &fault);
            assert!(test.place.condition.wait_for(A_WHILE.get()).unwrap());
            assert_eq!(test.waiting(), 1);
            guard.unlock().unwrap();
            test.place.wait();
        });
        test.await_waiting(2);
        test.other.notify_one();
        assert_eq!(test.waiting(), 1);
        test.proxied.proxy.clear_rules();
        within(LEASE.get() * 3, "the notification", || {
            waiter.join().unwrap();
        });
        eventually("no place", || test.places() == 0);
    });
}

/// The thread holds the lock again, by the same grant. So the copy makes another place.
#[test]
fn a_copy_that_arrives_after_the_wait_leaves_no_place() {
    let test = Proxied::lingering(LEASE.get() * 10, LEASE.get() * 2);
    let gate = test.proxied.hold_back_once("condition_wait");
    let guard = test.place.lock.acquire().unwrap();
    assert!(!test.place.condition.wait_for(A_WHILE.get()).unwrap());
    gate.open();
    eventually("the first copy", || gate.passed() == 1);
    test.await_no_place();
    guard.unlock().unwrap();
}
