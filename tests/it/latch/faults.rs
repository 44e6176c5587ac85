//! Latches under faults: a lost reply counts down once.

use std::thread;
use std::time::Duration;

use leasehold::{CountDownLatch, Error};

use crate::faults::proxied_server::{ProxiedServer, is_not_released, is_unavailable};
use crate::support::builder;
use crate::support::client;
use crate::support::proxy::{Fault, Gate};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, SLIP, SOON, eventually, millis, throughout, within};
use crate::support::traffic;

const FAULTS: [Fault; 2] = [Fault::SwallowReply, Fault::ResetBeforeReply];

#[test]
fn one_lost_reply_of_each_call_only_delays_it() {
    let proxied = ProxiedServer::new();
    let client = proxied.builder(SLIP.get()).build().unwrap();
    for fault in FAULTS {
        let latch = client.count_down_latch("loaded");
        proxied.fault_once("set_number", &fault);
        assert!(latch.try_set_count(2).unwrap(), "{fault:?}");
        for left in [1, 0] {
            proxied.fault_once("count_down", &fault);
            assert_eq!(latch.count_down().unwrap(), left, "{fault:?}");
            assert_eq!(latch.count().unwrap(), left, "{fault:?}");
        }
        proxied.fault_once("read_number", &fault);
        latch.wait().unwrap();
    }
}

#[test]
fn a_count_down_that_is_never_answered_is_executed_once() {
    for fault in [
        Fault::SwallowReply,
        Fault::ResetBeforeReply,
        Fault::SwallowRequest,
    ] {
        let proxied = ProxiedServer::new();
        let latch = proxied
            .builder(SLIP.get())
            .build()
            .unwrap()
            .count_down_latch("loaded");
        let view = client(&proxied.server.url()).count_down_latch("loaded");
        assert!(latch.try_set_count(5).unwrap());
        proxied.fault_always("count_down", &fault);
        let result = latch.count_down();
        assert!(is_not_released(&result), "{fault:?}: {result:?}");
        proxied.proxy.clear_rules();
        eventually("it is executed", || view.count().unwrap() == 4);
        throughout(A_WHILE.get() * 3, "once", || view.count().unwrap() == 4);
    }
}

/// The latch has a new count by then.
#[test]
fn a_count_down_that_arrives_late_changes_nothing() {
    let proxied = ProxiedServer::new();
    let latch = proxied
        .builder(SLIP.get())
        .build()
        .unwrap()
        .count_down_latch("loaded");
    assert!(latch.try_set_count(1).unwrap());
    let gate = proxied.hold_back_once("count_down");
    assert_eq!(latch.count_down().unwrap(), 0);
    assert!(latch.try_set_count(3).unwrap());
    gate.open();
    eventually("the late request to be executed", || gate.passed() == 1);
    assert_eq!(latch.count().unwrap(), 3);
}

/// The latch had no count when the repetition arrived, and has one when the first copy arrives.
#[test]
fn a_count_down_of_an_open_latch_that_arrives_late_changes_nothing() {
    let proxied = ProxiedServer::new();
    let ours = proxied.builder(SLIP.get()).build().unwrap();
    let latch = ours.count_down_latch("loaded");
    let view = client(&proxied.server.url()).count_down_latch("loaded");
    assert_eq!(latch.count().unwrap(), 0);
    let gate = proxied.hold_back_once("count_down");
    assert_eq!(latch.count_down().unwrap(), 0);
    assert!(view.try_set_count(3).unwrap());
    gate.open();
    eventually("the late request to be executed", || gate.passed() == 1);
    assert_eq!(latch.count().unwrap(), 3);
}

/// It would close the latch again.
#[test]
fn a_count_that_arrives_after_the_latch_has_opened_is_not_set() {
    let proxied = ProxiedServer::new();
    let ours = proxied.builder(SLIP.get()).build().unwrap();
    let latch = ours.count_down_latch("loaded");
    let view = client(&proxied.server.url()).count_down_latch("loaded");
    assert!(view.try_set_count(1).unwrap());
    let gate = proxied.hold_back_once("set_number");
    assert!(!latch.try_set_count(3).unwrap());
    assert_eq!(view.count_down().unwrap(), 0);
    gate.open();
    eventually("the late request to be executed", || gate.passed() == 1);
    assert_eq!(view.count().unwrap(), 0);
}

/// The caller has given up.
#[test]
fn a_count_that_arrives_after_its_call_has_failed_is_not_set() {
    let proxied = ProxiedServer::new();
    let waiting = proxied.builder(SLIP.get()).build().unwrap();
    let latch = waiting.count_down_latch("loaded");
    let view = client(&proxied.server.url()).count_down_latch("loaded");
    assert_eq!(latch.count().unwrap(), 0);
    let gate = Gate::new();
    let fault = Fault::HoldBack(gate.clone());
    proxied.fault_always("set_number", &fault);
    let result = latch.try_set_count(3);
    assert!(is_unavailable(&result), "{result:?}");
    eventually("it is cancelled", || {
        let calls = traffic::calls(&proxied.server);
        calls.contains_key("hset")
    });
    let held = gate.held();
    assert!(held > 0);
    gate.open();
    eventually("the late requests to be executed", || gate.passed() >= held);
    assert_eq!(view.count().unwrap(), 0);
    proxied.proxy.clear_rules();
    assert!(latch.try_set_count(3).unwrap());
}

/// The first copy gets no reply, and Redis refuses the second: the call may have been executed.
#[test]
fn a_refused_repetition_is_no_refusal_of_the_call() {
    type Call = fn(&CountDownLatch) -> leasehold::Result<()>;
    let calls: [(&str, u64, Call, u64); 2] = [
        ("count_down", 5, |one| one.count_down().map(drop), 4),
        ("set_number", 0, |one| one.try_set_count(3).map(drop), 0),
    ];
    for (script, count, call, expected) in calls {
        let proxied = ProxiedServer::new();
        let client = proxied.builder(SLIP.get()).build().unwrap();
        let latch = client.count_down_latch("loaded");
        let memory = |bytes: u32| {
            let mut config = redis::cmd("CONFIG");
            let server = &proxied.server;
            server.ask::<()>(config.arg("SET").arg("maxmemory").arg(bytes));
        };
        if count > 0 {
            assert!(latch.try_set_count(count).unwrap());
        }
        memory(1);
        proxied.fault_once(script, &Fault::SwallowRequest);
        let result = call(&latch);
        let is_expected = match script {
            "count_down" => is_not_released,
            _ => is_unavailable,
        };
        assert!(is_expected(&result), "{script}: {result:?}");
        let text = result.unwrap_err().to_string();
        assert!(text.contains("OOM"), "{text}");
        memory(0);
        let end = || latch.count().unwrap() == expected;
        eventually("it is repeated or cancelled", end);
        throughout(A_WHILE.get() * 3, "once", end);
    }
}

/// The new subscription makes up for the message.
#[test]
fn a_killed_subscription_delays_a_waiting_thread_only_briefly() {
    let server = Server::start();
    let client = client(&server.url());
    let latch = client.count_down_latch("loaded");
    assert!(latch.try_set_count(1).unwrap());
    thread::scope(|scope| {
        let waiters = [(); 3].map(|()| scope.spawn(|| latch.wait()));
        throughout(A_WHILE.get(), "they wait", || {
            waiters.iter().all(|one| !one.is_finished())
        });
        server.ask::<()>(redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("PUBSUB"));
        server.ask::<()>(redis::cmd("DEL").arg("loaded"));
        within(SOON.get() / 4, "the end of the waits", || {
            waiters.map(|one| one.join().unwrap().unwrap())
        });
    });
}

#[test]
fn calls_end_in_time_while_the_server_hangs() {
    let server = Server::start();
    let timeout = millis(100);
    let grace = Duration::from_millis(250) + SLIP.get();
    let client = builder(&server.url())
        .command_timeout(timeout)
        .build()
        .unwrap();
    let latch = client.count_down_latch("loaded");
    latch.try_set_count(3).unwrap();
    server.pause();
    let unavailable = |result: leasehold::Result<()>| {
        assert!(is_unavailable(&result), "{result:?}");
    };
    unavailable(within(timeout + grace, "a question", || {
        latch.count().map(drop)
    }));
    unavailable(within(timeout + grace, "a wait", || {
        latch.wait_for(Duration::ZERO).map(drop)
    }));
    let result = within(timeout * 3 + grace, "a count-down", || latch.count_down());
    assert!(is_not_released(&result), "{result:?}");
    unavailable(within(timeout * 10 + grace, "a wait", || latch.wait()));
    server.resume();
    eventually("the count-down", || latch.count().unwrap() == 2);
    throughout(A_WHILE.get() * 3, "once", || latch.count().unwrap() == 2);
}

/// A latch without a count is open.
#[test]
fn a_restart_that_loses_the_count_ends_all_waits() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let latch = ours.count_down_latch("loaded");
    let waiting = theirs.count_down_latch("loaded");
    assert!(latch.try_set_count(2).unwrap());
    thread::scope(|scope| {
        let waiters = [
            scope.spawn(|| waiting.wait().map(|()| true)),
            scope.spawn(|| waiting.wait_for(SOON.get() * 6)),
            scope.spawn(|| latch.wait().map(|()| true)),
        ];
        throughout(A_WHILE.get(), "they wait", || {
            waiters.iter().all(|one| !one.is_finished())
        });
        server.restart_empty();
        within(SOON.get() / 4, "the end of the waits", || {
            waiters.map(|one| assert!(one.join().unwrap().unwrap()))
        });
    });
    assert_eq!(
        (latch.count().unwrap(), waiting.count_down().unwrap()),
        (0, 0)
    );
    assert!(waiting.try_set_count(1).unwrap());
    assert!(!latch.wait_for(Duration::ZERO).unwrap());
}

/// The server does not come back.
#[test]
fn a_wait_ends_with_an_error_when_the_server_dies() {
    let server = Server::start();
    let timeout = millis(100);
    let grace = Duration::from_millis(250) + SLIP.get();
    let builder = builder(&server.url()).command_timeout(timeout);
    let client = builder.build().unwrap();
    let latch = client.count_down_latch("loaded");
    assert!(latch.try_set_count(1).unwrap());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| latch.wait());
        throughout(A_WHILE.get(), "it waits", || !waiter.is_finished());
        server.kill();
        let result = within(timeout * 10 + grace, "the wait", || waiter.join().unwrap());
        assert!(is_unavailable(&result), "{result:?}");
    });
}

/// The wait has begun before, so that no request is under way.
#[test]
fn a_limited_wait_ends_in_time_when_the_server_hangs() {
    let server = Server::start();
    let client = builder(&server.url()).build().unwrap();
    let latch = client.count_down_latch("loaded");
    assert!(latch.try_set_count(1).unwrap());
    let time = A_WHILE.get() * 4;
    let grace = Duration::from_millis(250) + SLIP.get();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| within(time + grace, "the wait", || latch.wait_for(time)));
        throughout(A_WHILE.get(), "it waits", || !waiter.is_finished());
        server.pause();
        let result = waiter.join().unwrap();
        assert!(
            matches!(result, Ok(false) | Err(Error::Unavailable { .. })),
            "{result:?}"
        );
        server.resume();
    });
}
