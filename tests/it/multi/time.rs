//! Calls on many names: each ends within its documented time, and takes a few round trips, whatever
//! the number of names.

use crate::support::prelude::*;
use crate::support::proxy::Proxy;

/// A call that waits for each name separately would take seconds.
const NAMES: usize = 20;

/// How late a call may end on a machine that stalls.
fn slack() -> Duration {
    millis(250) + SLIP.get() * 2
}

fn names() -> Vec<String> {
    (0..NAMES).map(|at| format!("name:{at:02}")).collect()
}

fn client_with_timeout(url: &str, timeout: Duration) -> LockClient {
    builder(url)
        .watchdog_lease(SOON.get() * 2)
        .command_timeout(timeout)
        .connect_timeout(timeout)
        .pool_timeout(timeout)
        .build()
        .unwrap()
}

fn is_empty(server: &Server) -> bool {
    server.size() == 0
}

/// A client whose replies are delayed by `latency`, and its proxy.
fn client_with_latency(
    server: &Server,
    latency: Duration,
    timeout: Duration,
) -> (LockClient, Proxy) {
    let proxy = proxy::before(&server.address());
    let client = client_with_timeout(&proxy.url(), timeout);
    // From now on connections and scripts exist.
    let warm = client.multi_lock(["warm", "warmer"]);
    pair(&warm);
    proxy.on_request(move |_| Fault::Latency(latency));
    (client, proxy)
}

#[test]
fn many_names_take_no_longer_than_one_with_high_latency() {
    let server = Server::start();
    let (latency, timeout) = (millis(100), millis(1000));
    let (client, _proxy) = client_with_latency(&server, latency, timeout);
    let lock = client.multi_lock(names());
    let guard = within(latency * 2 + slack(), "try_acquire", || {
        lock.try_acquire(Duration::ZERO, Lease::RENEWED)
    });
    let guard = guard.unwrap().expect("it is free");
    within(latency + slack(), "extend", || {
        guard.extend(SOON.get() * 3).unwrap();
    });
    within(latency + slack(), "is_locked", || {
        assert!(lock.is_locked().unwrap());
    });
    within(latency + slack(), "a nested lock", || lock.lock().unwrap());
    within(latency + slack(), "a nested unlock", || {
        lock.unlock().unwrap();
    });
    within(latency + slack(), "unlock", || guard.unlock().unwrap());
    assert!(is_empty(&server));
}
