//! The lock was granted, and the reply of the replicas is lost.

use super::{TIMEOUT, has, requiring};
use crate::support::prelude::*;

fn count(server: &Server) -> Vec<u32> {
    server.ask(redis::cmd("HVALS").arg("lock"))
}

/// Long before its lease ends, and the thread can acquire it again.
#[test]
fn an_unconfirmed_lock_is_released() {
    let deployment = Replicated::start(1);
    for fault in unanswered() {
        let proxy = proxy::before(&deployment.master().address());
        let client = requiring(1, &proxy.url()).build().unwrap();
        let lock = client.reentrant_lock("lock");
        let what = fault.clone();
        proxy.on_request(move |request| match request.command().as_str() {
            "WAIT" => what.clone(),
            _ => Fault::Pass,
        });
        let bound = millis(TIMEOUT) + SLIP.get() * 2;
        let error = within(bound, "try_lock", || {
            lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap_err()
        });
        assert_matches!(error, Error::Unavailable { .. });
        assert!(!lock.is_held_by_current_thread());
        eventually("it is released", || !has(deployment.master(), "lock"));
        proxy.clear_rules();
        assert!(lock.try_lock(SOON.get(), Lease::RENEWED).unwrap());
        assert_eq!(count(deployment.master()), [1], "{fault:?}");
        lock.unlock().unwrap();
        assert!(!has(deployment.master(), "lock"), "{fault:?}");
    }
}

/// The first copy of the request arrives after a later one was granted, confirmed and released.
#[test]
fn a_late_copy_of_a_confirmed_request_leaves_no_lock() {
    let deployment = Replicated::start(1);
    let proxy = proxy::before(&deployment.master().address());
    let client = requiring(1, &proxy.url()).build().unwrap();
    let lock = client.reentrant_lock("lock");
    pair(&lock);
    let gate = Gate::new();
    let mut first = Some(gate.clone());
    proxy.on_request(move |request| match request.runs("acquire") {
        true => first.take().map_or(Fault::Pass, Fault::HoldBack),
        false => Fault::Pass,
    });
    lock.lock().unwrap();
    assert_eq!(gate.held(), 1);
    lock.unlock().unwrap();
    gate.open();
    eventually("the late copy is executed", || gate.passed() == 1);
    eventually("it is undone", || !has(deployment.master(), "lock"));
}
