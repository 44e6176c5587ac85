//! Lost replies and late requests. Each change is executed once or not at all.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::Semaphore;

use super::Proxied;
use crate::faults::proxied_server::{is_not_released, is_unavailable};
use crate::support::proxy::{Fault, Gate};
use crate::support::timing::{A_WHILE, SOON, eventually, throughout, within};
use crate::support::traffic;

const FAULTS: [Fault; 2] = [Fault::SwallowReply, Fault::ResetBeforeReply];

type Call = fn(&Semaphore) -> leasehold::Result<i32>;

/// Each changing call: its script, and the number of free permits of ten after it.
const CALLS: [(&str, Call, i32); 5] = [
    ("take_permits", |one| one.acquire(3).map(|()| 7), 7),
    (
        "take_permits",
        |one| {
            one.try_acquire(3, SOON.get() / 10)
                .map(|taken| if taken { 7 } else { 0 })
        },
        7,
    ),
    ("add_permits", |one| one.release(2).map(|()| 12), 12),
    ("add_permits", |one| one.add_permits(-4).map(|()| 6), 6),
    (
        "drain_permits",
        |one| one.drain().map(|drained| 10 - drained),
        0,
    ),
];

#[test]
fn one_lost_reply_of_each_call_only_delays_it() {
    for fault in FAULTS {
        for (script, call, expected) in CALLS {
            let test = Proxied::with(10);
            let lost = test.proxied.fault_once(script, &fault);
            assert_eq!(
                call(&test.semaphore).unwrap(),
                expected,
                "{fault:?} of {script}"
            );
            assert!(lost.load(Ordering::SeqCst), "{script}: no request was sent");
            assert_eq!(test.free(), expected, "{fault:?} of {script}");
        }
    }
}

#[test]
fn the_reply_to_the_first_permits_may_be_lost() {
    for fault in FAULTS {
        let test = Proxied::with(10);
        let fresh = test.semaphore.name().replace("permits", "fresh");
        let (fresh, view) = {
            let ours = super::hasty(&test.proxied);
            (
                ours.semaphore(&fresh),
                super::client(&test.proxied.server.url()).semaphore(&fresh),
            )
        };
        let lost = test.proxied.fault_once("set_number", &fault);
        assert!(fresh.try_set_permits(5).unwrap(), "{fault:?}");
        assert!(lost.load(Ordering::SeqCst));
        assert_eq!(view.available().unwrap(), 5);
    }
}

/// Those that take permits have taken none in the end. The others are executed once.
#[test]
fn a_call_that_is_never_answered_is_undone_or_executed_once() {
    thread::scope(|scope| {
        for fault in &FAULTS {
            for (script, call, expected) in CALLS {
                scope.spawn(move || {
                    let test = Proxied::with(10);
                    test.proxied.fault_always(script, fault);
                    let result = call(&test.semaphore);
                    let is_expected = match script {
                        "add_permits" => is_not_released,
                        _ => is_unavailable,
                    };
                    assert!(is_expected(&result), "{fault:?} of {script}: {result:?}");
                    let expected = if script == "add_permits" {
                        expected
                    } else {
                        10
                    };
                    eventually("the number of free permits", || test.free() == expected);
                    test.proxied.proxy.clear_rules();
                    test.assert_stays(expected);
                });
            }
        }
    });
}

/// The client repeats it in the background.
#[test]
fn a_release_that_never_arrived_is_executed_later() {
    let test = Proxied::with(10);
    test.proxied
        .fault_always("add_permits", &Fault::SwallowRequest);
    let result = test.semaphore.release(1);
    assert!(is_not_released(&result), "{result:?}");
    assert_eq!(test.free(), 10);
    test.proxied.proxy.clear_rules();
    eventually("the release", || test.free() == 11);
    test.assert_stays(11);
}

/// The request was repeated, and the repetition was answered.
#[test]
fn a_request_that_arrives_after_its_repetition_changes_nothing() {
    for (script, call, expected) in CALLS {
        let test = Proxied::with(10);
        let gate = test.proxied.hold_back_once(script);
        assert_eq!(call(&test.semaphore).unwrap(), expected);
        // A newer request has taken its place in the records.
        test.semaphore.release(5).unwrap();
        assert_eq!(gate.held(), 1);
        gate.open();
        eventually("the late request to be executed", || gate.passed() == 1);
        assert_eq!(test.free(), expected + 5, "{script}");
    }
}

/// The caller has given up, and the client has undone the request before it arrived.
#[test]
fn a_request_that_arrives_after_it_was_undone_takes_no_permits() {
    let test = Proxied::with(10);
    let gate = Gate::new();
    test.proxied
        .fault_always("take_permits", &Fault::HoldBack(gate.clone()));
    let result = test.semaphore.try_acquire(3, Duration::ZERO);
    assert!(is_unavailable(&result), "{result:?}");
    eventually("a request to be held back", || gate.held() > 0);
    test.proxied.proxy.clear_rules();
    // The lane of the request is not used by others.
    for _ in 0..3 {
        test.semaphore.acquire(1).unwrap();
        test.semaphore.release(1).unwrap();
    }
    throughout(A_WHILE.get(), "the request is undone", || test.free() == 10);
    let held = gate.held();
    traffic::reset(&test.proxied.server);
    gate.open();
    eventually("the late requests to be executed", || gate.passed() >= held);
    let calls = traffic::calls(&test.proxied.server);
    assert!(
        calls.contains_key("hget") && !calls.contains_key("incrby"),
        "{calls:?}"
    );
    test.assert_stays(10);
}

/// A tenth of all replies is lost, and the sum is exact.
#[test]
fn no_permit_is_lost_or_made_by_lost_replies() {
    lose_replies(3, 4);
}

/// With enough threads, one of them sends a request for several.
#[test]
fn no_permit_is_lost_or_made_by_lost_replies_to_requests_for_several_threads() {
    lose_replies(24, 24);
}

fn lose_replies(permits: i32, threads: u32) {
    let test = Proxied::with(permits.cast_unsigned());
    let mut random = fastrand::Rng::with_seed(7);
    test.proxied.proxy.on_request(move |request| {
        let is_ours = request.script().is_some();
        match random.u8(0..40) {
            0 if is_ours => Fault::SwallowReply,
            1..4 if is_ours => Fault::ResetBeforeReply,
            4 if is_ours => Fault::SwallowRequest,
            _ => Fault::Pass,
        }
    });
    thread::scope(|scope| {
        for number in 0..threads {
            let semaphore = &test.semaphore;
            scope.spawn(move || {
                let permits = 1 + number % 2;
                for _ in 0..30 {
                    // Which of these failed is unknown to the caller, but not to Redis.
                    if semaphore.acquire(permits).is_ok() {
                        let _ = semaphore.release(permits);
                    }
                }
            });
        }
    });
    test.proxied.proxy.clear_rules();
    eventually("all permits to be free", || test.free() == permits);
    test.assert_stays(permits);
}

/// As many as there are requests at the same time, and only for a while.
#[test]
fn few_records_are_kept() {
    let test = Proxied::with(8);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    test.semaphore.acquire(1).unwrap();
                    test.semaphore.release(1).unwrap();
                }
            });
        }
    });
    let server = &test.proxied.server;
    let keys: Vec<String> = server.ask(redis::cmd("KEYS").arg("{*:leasehold:*"));
    // One of this client, and one of the test's own.
    assert_eq!(keys.len(), 2, "{keys:?}");
    for key in keys {
        let records: u32 = server.ask(redis::cmd("HLEN").arg(&key));
        assert!((1..=4).contains(&records), "{records}");
        let left: i64 = server.ask(redis::cmd("PTTL").arg(&key));
        assert!((1..=120_000).contains(&left), "{left}");
    }
}

/// The reply of the third copy is the refusal of the second one, from before the release.
#[test]
fn a_release_after_a_lost_refusal_wakes_the_waiting_thread() {
    let test = Proxied::with(0);
    let server = &test.proxied.server;
    let keys = || server.ask::<u32>(&redis::cmd("DBSIZE"));
    // From now on its channel is subscribed.
    let waited = test.semaphore.try_acquire(1, A_WHILE.get());
    assert!(!waited.unwrap());
    let before = keys();
    let copies = AtomicU32::new(0);
    test.proxied.proxy.on_request(move |request| {
        match request.runs("take_permits") && copies.fetch_add(1, Ordering::SeqCst) < 2 {
            true => Fault::SwallowReply,
            false => Fault::Pass,
        }
    });
    thread::scope(|scope| {
        let waiter = scope.spawn(|| test.semaphore.try_acquire(1, SOON.get()));
        // The record of the second copy.
        eventually("a recorded refusal", || keys() == before + 1);
        test.view.release(1).unwrap();
        within(SOON.get() / 10, "a permit", || {
            assert!(waiter.join().unwrap().unwrap());
        });
    });
    assert_eq!(test.free(), 0);
}
