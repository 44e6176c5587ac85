//! A copy of a request arrives after the call has ended. It changes nothing any more.

use super::lost_replies::Proxied;
use super::{Kind, Steps};
use crate::support::prelude::*;

use Kind::{Latch, Semaphore as Permits};

/// A call whose reply is a refusal or a zero, a change of another client after which the call would
/// change the number, and the number after that change.
type Refused = (
    Kind,
    &'static str,
    i64,
    fn(&Steps) -> bool,
    fn(&Proxied),
    i64,
);

const REFUSED: [Refused; 7] = [
    (
        Permits,
        "take_permits",
        0,
        |one| !one.semaphore().try_acquire(3, SOON.get() / 10).unwrap(),
        |test| test.view.add(4).unwrap(),
        4,
    ),
    (
        Permits,
        "change_number",
        0,
        |one| one.semaphore().drain().unwrap() == 0,
        |test| test.view.add(4).unwrap(),
        4,
    ),
    (
        Permits,
        "change_number",
        i32::MAX as i64,
        |one| {
            matches!(
                one.semaphore().release(1),
                Err(Error::InvalidArgument { .. })
            )
        },
        |test| test.view.semaphore().drain().map(drop).unwrap(),
        0,
    ),
    (
        Permits,
        "change_number",
        5,
        |one| !one.semaphore().try_set_permits(3).unwrap(),
        |test| test.proxied.server.run(&format!("DEL {}", test.view.name)),
        0,
    ),
    // The latch had no count when the repetition arrived, and has one when the first copy arrives.
    (
        Latch,
        "change_number",
        0,
        |one| one.latch().count_down().unwrap() == 0,
        |test| test.view.close(3),
        3,
    ),
    // The latch has a new count by then.
    (
        Latch,
        "change_number",
        1,
        |one| one.latch().count_down().unwrap() == 0,
        |test| test.view.close(3),
        3,
    ),
    // It would close the latch again.
    (
        Latch,
        "change_number",
        1,
        |one| !one.latch().try_set_count(3).unwrap(),
        |test| test.view.open().unwrap(),
        0,
    ),
];

#[test]
fn a_request_whose_repetition_was_refused() {
    for (kind, script, before, call, then, expected) in REFUSED {
        let test = Proxied::of(kind, before);
        let gate = test.proxied.hold_back_once(script);
        assert!(call(&test.steps), "{script} of {kind:?}");
        then(&test);
        assert_eq!(gate.held(), 1);
        gate.open();
        eventually("the late request", || gate.passed() == 1);
        assert_eq!(test.left(), expected, "{script} of {kind:?}");
    }
}

/// Redis refuses the next request of the same lane: without memory in its first write, without a
/// permission in its second one.
#[test]
fn a_request_before_one_that_was_refused() {
    for (refuse, permit) in [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        ("ACL SETUSER default -incrby", "ACL SETUSER default +incrby"),
    ] {
        let test = Proxied::of(Permits, 10);
        let gate = test.proxied.hold_back_once("take_permits");
        test.steps.semaphore().acquire(3).unwrap();
        test.proxied.server.run(refuse);
        assert_error!(test.steps.semaphore().release(1), Redis, "{refuse}");
        test.proxied.server.run(permit);
        gate.open();
        eventually("the late request", || gate.passed() == 1);
        assert_eq!(test.left(), 7, "{refuse}");
    }
}

/// The first copy gets no reply, and Redis refuses the second: the call may have been executed.
#[test]
fn a_refused_repetition_is_no_refusal_of_the_call() {
    for (script, before, expected) in [("change_number", 5, 4), ("change_number", 0, 0)] {
        let test = Proxied::of(Latch, before);
        test.proxied.server.run("CONFIG SET maxmemory 1");
        test.proxied.fault_once(script, &Fault::SwallowRequest);
        let result = match script {
            "change_number" => test.steps.latch().count_down().map(drop),
            _ => test.steps.latch().try_set_count(3).map(drop),
        };
        let is_expected = match script {
            "change_number" => is_change_without_reply(&result),
            _ => is_unavailable(&result),
        };
        assert!(is_expected, "{script}: {result:?}");
        let text = result.unwrap_err().to_string();
        assert!(text.contains("OOM"), "{text}");
        test.proxied.server.run("CONFIG SET maxmemory 0");
        test.assert_becomes(expected, "it is repeated or cancelled");
    }
}

/// `WAIT` counts the replicas that have the last write of its connection. So the second copy of a
/// request for permits writes, too.
#[test]
fn a_repeated_request_writes_so_that_replicas_can_confirm_it() {
    let test = Proxied::of(Permits, 10);
    let fault = Fault::SwallowReply;
    test.proxied.fault_once("take_permits", &fault);
    traffic::reset(&test.proxied.server);
    assert!(test.steps.semaphore().try_acquire(3, SOON.get()).unwrap());
    let calls = traffic::calls(&test.proxied.server);
    // A busy machine repeats it more often.
    assert!(calls["incrby"] == 1 && calls["pexpire"] >= 2, "{calls:?}");
}
