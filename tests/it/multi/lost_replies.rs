//! Connections that break during a request for several names.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::{Lease, LockClient};

use crate::faults::proxied_server::{ProxiedServer, is_not_released, is_unavailable};
use crate::support::proxy::Fault;
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

const FAULTS: [Fault; 5] = [
    Fault::SwallowReply,
    Fault::SwallowRequest,
    Fault::ResetBeforeReply,
    Fault::CutInReply(2),
    Fault::HalfRequest,
];

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
    eventually("nothing to be left", || proxied.server.size() == 0);
    assert!(clients.iter().all(|client| client.stats().lost == 0));
}
