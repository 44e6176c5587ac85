//! Connections that break during a request for several names.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::{Lease, LockClient, MultiLock};

use crate::faults::proxied_server::{ProxiedServer, is_not_released, is_unavailable};
use crate::support::proxy::{Fault, Gate};
use crate::support::timing::{LEASE, SLIP, eventually, millis};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn client(proxied: &ProxiedServer) -> LockClient {
    let builder = proxied.builder(SLIP.get()).watchdog_lease(LEASE.get() * 60);
    builder.build().expect("the settings are valid")
}

/// The counts in Redis, in the order of the names.
fn counts(proxied: &ProxiedServer) -> Vec<u32> {
    let mut view = proxied.view();
    NAMES.map(|name| view.count(name)).to_vec()
}

/// The next request that runs `script` gets this fault. After a lost reply the connection delivers
/// no later one; after a lost request it takes no later one.
fn once(proxied: &ProxiedServer, script: &'static str, fault: &Fault) -> Arc<AtomicBool> {
    let done = Arc::new(AtomicBool::new(false));
    let (mark, fault, mut broken) = (Arc::clone(&done), fault.clone(), None);
    proxied.proxy.on_request(move |request| {
        if broken == Some(request.connection) {
            return fault.clone();
        }
        if !request.runs(script) || mark.swap(true, Ordering::SeqCst) {
            return Fault::Pass;
        }
        broken = Some(request.connection);
        fault.clone()
    });
    done
}

const FAULTS: [Fault; 5] = [
    Fault::SwallowReply,
    Fault::SwallowRequest,
    Fault::ResetBeforeReply,
    Fault::CutInReply(2),
    Fault::HalfRequest,
];

#[test]
fn a_connection_that_breaks_once_only_delays_the_call() {
    for fault in FAULTS {
        let proxied = ProxiedServer::new();
        let client = client(&proxied);
        let lock = client.multi_lock(NAMES);
        let steps: [(_, fn(&MultiLock) -> _, _); 2] = [
            ("acquire", MultiLock::lock, 1),
            ("release", MultiLock::unlock, 0),
        ];
        for (script, call, count) in steps {
            let lost = once(&proxied, script, &fault);
            let what = format!("{fault:?} of {script}");
            call(&lock).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(lost.load(Ordering::SeqCst), "{what}: no request was sent");
            assert_eq!(lock.hold_count(), count, "{what}");
            assert_eq!(counts(&proxied), [count; 5], "{what}");
        }
        assert_eq!(client.stats().lost, 0);
    }
}

#[test]
fn an_extend_by_the_holder_is_retried() {
    for fault in [
        Fault::ResetBeforeReply,
        Fault::CutInReply(2),
        Fault::HalfRequest,
    ] {
        let proxied = ProxiedServer::new();
        let client = client(&proxied);
        let guard = client.multi_lock(NAMES).acquire().unwrap();
        let lost = once(&proxied, "renew", &fault);
        guard.extend(LEASE.get() * 90).unwrap();
        assert!(lost.load(Ordering::SeqCst), "{fault:?}");
        assert!(guard.remaining() > LEASE.get() * 80);
        guard.unlock().unwrap();
        assert_eq!(counts(&proxied), [0; 5]);
    }
}

/// From a request that runs `script` on, on its connection.
fn never_answered(proxied: &ProxiedServer, script: &'static str, fault: Fault) {
    let mut broken = Vec::new();
    proxied.proxy.on_request(move |request| {
        if request.runs(script) {
            broken.push(request.connection);
        }
        if broken.contains(&request.connection) {
            fault.clone()
        } else {
            Fault::Pass
        }
    });
}

#[test]
fn acquires_that_are_never_answered_are_compensated() {
    for fault in [Fault::SwallowReply, Fault::ResetBeforeReply] {
        let proxied = ProxiedServer::new();
        let client = client(&proxied);
        let lock = client.multi_lock(NAMES);
        never_answered(&proxied, "acquire", fault.clone());
        let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
        assert!(is_unavailable(&result), "{fault:?}: {result:?}");
        assert_eq!(lock.hold_count(), 0);
        eventually("all to be compensated", || counts(&proxied) == [0; 5]);
        proxied.proxy.clear_rules();
        lock.lock().unwrap();
        assert_eq!(counts(&proxied), [1; 5]);
        lock.unlock().unwrap();
    }
}

#[test]
fn releases_that_are_never_answered_are_executed() {
    for fault in [Fault::SwallowReply, Fault::SwallowRequest] {
        let proxied = ProxiedServer::new();
        let client = client(&proxied);
        let lock = client.multi_lock(NAMES);
        lock.lock().unwrap();
        never_answered(&proxied, "release", fault.clone());
        let result = lock.unlock();
        assert!(is_not_released(&result), "{fault:?}: {result:?}");
        assert_eq!(lock.hold_count(), 0);
        proxied.proxy.clear_rules();
        eventually("all to be released", || counts(&proxied) == [0; 5]);
        // Requests that are retried in the background do not affect the next hold.
        lock.lock().unwrap();
        thread::sleep(millis(100));
        assert_eq!(counts(&proxied), [1; 5]);
        lock.unlock().unwrap();
    }
}

/// A request that reaches the server after the call gave up is compensated on its connection.
#[test]
fn acquires_that_arrive_after_their_call_gave_up_are_compensated_at_once() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied);
    let lock = client.multi_lock(NAMES);
    let gate = Gate::new();
    let (held, mut connections) = (gate.clone(), Vec::new());
    proxied.proxy.on_request(move |request| {
        if request.runs("acquire") {
            connections.push(request.connection);
            return Fault::HoldBack(held.clone());
        }
        // The releases of the watchdog may arrive before the requests that they compensate.
        if request.runs("release") && !connections.contains(&request.connection) {
            return Fault::SwallowRequest;
        }
        Fault::Pass
    });
    let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
    assert!(is_unavailable(&result), "{result:?}");
    gate.open();
    eventually("the request to arrive", || gate.passed() > 0);
    eventually("none to be left", || counts(&proxied) == [0; 5]);
}

#[test]
fn a_waiting_call_retries_until_there_is_a_reply() {
    const UNANSWERED: usize = 4;
    let proxied = ProxiedServer::new();
    let builder = proxied.builder(millis(80)).watchdog_lease(LEASE.get() * 60);
    let client = builder.build().unwrap();
    let lock = client.multi_lock(NAMES);
    for fault in [Fault::SwallowReply, Fault::SwallowRequest] {
        let mut broken = Vec::new();
        let met = Arc::new(AtomicUsize::new(0));
        let meets = Arc::clone(&met);
        proxied.proxy.on_request(move |request| {
            let begins = request.runs("acquire") && broken.len() < UNANSWERED;
            if begins && !broken.contains(&request.connection) {
                broken.push(request.connection);
                meets.fetch_add(1, Ordering::SeqCst);
            }
            if broken.contains(&request.connection) {
                fault.clone()
            } else {
                Fault::Pass
            }
        });
        lock.lock().unwrap();
        assert_eq!(met.load(Ordering::SeqCst), UNANSWERED);
        proxied.proxy.clear_rules();
        assert_eq!((lock.hold_count(), counts(&proxied)), (1, vec![1; 5]));
        lock.unlock().unwrap();
        assert_eq!(counts(&proxied), [0; 5]);
    }
}

/// Four threads of two clients use random names of six. One request of fifteen fails.
#[test]
fn random_failures_cause_no_second_holder_and_leave_nothing() {
    const OPERATIONS: usize = 40;
    let proxied = ProxiedServer::new();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut broken: HashMap<u64, Fault> = HashMap::new();
    proxied.proxy.on_request(move |request| {
        let fault = broken.get(&request.connection).cloned();
        if request.script().is_none() || fault.is_some() || random.u32(..15) > 0 {
            return fault.unwrap_or(Fault::Pass);
        }
        let fault = FAULTS[random.usize(..FAULTS.len())].clone();
        broken.insert(request.connection, fault.clone());
        fault
    });
    let clients = [(); 2].map(|()| {
        let builder = proxied.builder(millis(60)).watchdog_lease(LEASE.get() * 60);
        builder.build().unwrap()
    });
    let names = ["a", "b", "c", "d", "e", "f"];
    let inside: [AtomicBool; 6] = Default::default();
    thread::scope(|scope| {
        for at in 0..4 {
            let (client, inside) = (&clients[at % 2], &inside);
            let mut random = fastrand::Rng::with_seed(seed + at as u64);
            scope.spawn(move || {
                for _ in 0..OPERATIONS {
                    let mine: Vec<usize> = (0..6).filter(|_| random.u32(..3) > 0).collect();
                    if mine.is_empty() {
                        continue;
                    }
                    let lock = client.multi_lock(mine.iter().map(|&at| names[at]));
                    let wait = millis(random.u64(..100));
                    let Ok(true) = lock.try_lock(wait, Lease::RENEWED) else {
                        assert_eq!(lock.hold_count(), 0);
                        continue;
                    };
                    for &at in &mine {
                        assert!(!inside[at].swap(true, Ordering::SeqCst), "{}", names[at]);
                    }
                    if random.bool() && lock.lock().is_ok() {
                        assert_eq!(lock.hold_count(), 2);
                        let _ = lock.unlock();
                    }
                    for &at in &mine {
                        inside[at].store(false, Ordering::SeqCst);
                    }
                    let result = lock.unlock();
                    assert!(result.is_ok() || is_not_released(&result), "{result:?}");
                    assert_eq!(lock.hold_count(), 0);
                }
            });
        }
    });
    proxied.proxy.clear_rules();
    eventually("nothing to be left", || {
        proxied.server.ask::<u32>(&redis::cmd("DBSIZE")) == 0
    });
    assert!(clients.iter().all(|client| client.stats().lost == 0));
}
