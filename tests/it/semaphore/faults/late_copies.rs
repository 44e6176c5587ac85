//! A copy of a request arrives after the call has ended. It changes nothing any more.

use leasehold::{Error, Semaphore};

use super::Proxied;
use crate::support::proxy::Fault;
use crate::support::timing::{SOON, eventually};
use crate::support::traffic;

/// A call that Redis refuses, and a change of another client after which Redis would not refuse it.
struct Refused {
    script: &'static str,
    free: u32,
    call: fn(&Semaphore) -> bool,
    then: fn(&Semaphore),
    expected: i32,
}

const REFUSED: [Refused; 3] = [
    Refused {
        script: "take_permits",
        free: 0,
        call: |one| !one.try_acquire(3, SOON.get() / 10).unwrap(),
        then: |view| view.release(4).unwrap(),
        expected: 4,
    },
    Refused {
        script: "drain_permits",
        free: 0,
        call: |one| one.drain().unwrap() == 0,
        then: |view| view.release(4).unwrap(),
        expected: 4,
    },
    Refused {
        script: "add_permits",
        free: i32::MAX as u32,
        call: |one| matches!(one.release(1), Err(Error::Config { .. })),
        then: |view| view.drain().map(drop).unwrap(),
        expected: 0,
    },
];

#[test]
fn a_request_whose_repetition_was_refused() {
    for refused in REFUSED {
        let test = Proxied::with(refused.free);
        let gate = test.proxied.hold_back_once(refused.script);
        assert!((refused.call)(&test.semaphore), "{}", refused.script);
        (refused.then)(&test.view);
        assert_eq!(gate.held(), 1);
        gate.open();
        eventually("the late request to be executed", || gate.passed() == 1);
        assert_eq!(test.free(), refused.expected, "{}", refused.script);
    }
}

#[test]
fn the_first_permits_of_a_semaphore_that_had_some() {
    let test = Proxied::with(5);
    let gate = test.proxied.hold_back_once("set_number");
    assert!(!test.semaphore.try_set_permits(3).unwrap());
    let mut delete = redis::cmd("DEL");
    let server = &test.proxied.server;
    server.ask::<()>(delete.arg(test.semaphore.name()));
    gate.open();
    eventually("the late request to be executed", || gate.passed() == 1);
    assert_eq!(test.free(), 0);
}

/// Without memory, Redis refuses the next request of the same lane.
#[test]
fn a_request_before_one_that_was_refused() {
    let test = Proxied::with(10);
    let memory = |bytes: u32| {
        let mut config = redis::cmd("CONFIG");
        let server = &test.proxied.server;
        server.ask::<()>(config.arg("SET").arg("maxmemory").arg(bytes));
    };
    let gate = test.proxied.hold_back_once("take_permits");
    test.semaphore.acquire(3).unwrap();
    memory(1);
    let refused = test.semaphore.release(1);
    assert!(matches!(refused, Err(Error::Redis { .. })), "{refused:?}");
    memory(0);
    gate.open();
    eventually("the late request to be executed", || gate.passed() == 1);
    assert_eq!(test.free(), 7);
}

/// A user may set the record, but not change the number.
#[test]
fn a_request_before_one_that_was_refused_in_its_second_write() {
    let test = Proxied::with(10);
    let gate = test.proxied.hold_back_once("take_permits");
    test.semaphore.acquire(3).unwrap();
    let allow = |rule: &str| {
        let mut acl = redis::cmd("ACL");
        let server = &test.proxied.server;
        server.ask::<()>(acl.arg("SETUSER").arg("default").arg(rule));
    };
    allow("-incrby");
    let refused = test.semaphore.release(1);
    assert!(matches!(refused, Err(Error::Redis { .. })), "{refused:?}");
    allow("+incrby");
    gate.open();
    eventually("the late request to be executed", || gate.passed() == 1);
    assert_eq!(test.free(), 7);
}

/// `WAIT` counts the replicas that have the last write of its connection. So the second copy of a
/// request for permits writes, too.
#[test]
fn a_repeated_request_writes_so_that_replicas_can_confirm_it() {
    let test = Proxied::with(10);
    test.proxied
        .fault_once("take_permits", &Fault::SwallowReply);
    traffic::reset(&test.proxied.server);
    assert!(test.semaphore.try_acquire(3, SOON.get()).unwrap());
    let calls = traffic::calls(&test.proxied.server);
    // A busy machine repeats it more often.
    assert!(calls["incrby"] == 1 && calls["pexpire"] >= 2, "{calls:?}");
}
