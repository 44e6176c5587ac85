//! Calls on many names: each ends within its documented time, and takes a few round trips, whatever
//! the number of names.

use std::thread;
use std::time::Duration;

use leasehold::{Error, Interrupt, Lease, LockClient, MultiLock};

use super::long;
use crate::support::client;
use crate::support::proxy::{Fault, Proxy};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, SLIP, SOON, eventually, millis, within};
use crate::support::traffic::Monitor;

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
    crate::support::builder(url)
        .watchdog_lease(SOON.get() * 2)
        .command_timeout(timeout)
        .connect_timeout(timeout)
        .pool_timeout(timeout)
        .build()
        .unwrap()
}

fn is_empty(server: &Server) -> bool {
    server.ask::<u32>(&redis::cmd("DBSIZE")) == 0
}

#[track_caller]
fn fails_within<T: std::fmt::Debug>(
    bound: Duration,
    call: &str,
    work: impl FnOnce() -> leasehold::Result<T>,
) {
    let result = within(bound + slack(), call, work);
    let is_unavailable = matches!(result, Err(Error::Unavailable { .. }));
    assert!(is_unavailable, "{call}: {result:?}");
}

#[test]
fn every_call_ends_in_time_while_the_server_hangs() {
    let server = Server::start();
    let timeout = millis(100);
    let client = client_with_timeout(&server.url(), timeout);
    let lock = client.multi_lock(names());
    lock.lock().unwrap();
    let guard = lock.acquire().unwrap();
    let dropped = lock.acquire().unwrap();
    server.pause();
    fails_within(timeout, "extend", || guard.extend(SOON.get() * 3));
    fails_within(timeout, "is_locked", || lock.is_locked());
    fails_within(timeout, "remaining_lease", || lock.remaining_lease());
    fails_within(timeout, "a nested try_lock", || {
        lock.try_lock(Duration::ZERO, Lease::RENEWED)
    });
    fails_within(timeout * 10, "a nested lock", || lock.lock());
    within(timeout + slack(), "the drop of a guard", || drop(dropped));
    fails_within(timeout * 3, "a nested unlock", || guard.unlock());
    fails_within(timeout * 3, "unlock", || lock.unlock());
    for wait in [Duration::ZERO, timeout / 2, timeout * 2] {
        fails_within(wait.max(timeout), "try_lock", || {
            lock.try_lock(wait, Lease::RENEWED)
        });
    }
    fails_within(timeout * 10, "lock", || lock.lock());
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| lock.lock_interruptibly(Lease::RENEWED, &interrupt));
        thread::sleep(timeout * 2);
        assert!(!waiter.is_finished());
        interrupt.interrupt();
        // One command timeout for the attempt under way, and one for the release.
        let result = within(timeout * 2 + slack(), "the interrupt", || {
            waiter.join().unwrap()
        });
        assert!(
            matches!(result, Err(Error::Interrupted { .. })),
            "{result:?}"
        );
    });
    server.resume();
    eventually("everything to be released", || is_empty(&server));
    let guard = lock.acquire().unwrap();
    guard.check().unwrap();
    guard.unlock().unwrap();
    assert!(is_empty(&server));
}

/// Locks of two clients of two servers, in alternation.
#[test]
fn every_call_on_two_servers_ends_in_time_while_both_hang() {
    let servers = [Server::start(), Server::start()];
    let timeout = millis(100);
    let clients = servers
        .each_ref()
        .map(|server| client_with_timeout(&server.url(), timeout));
    let locks: Vec<_> = (0..NAMES)
        .map(|at| clients[at % 2].reentrant_lock(&names()[at]))
        .collect();
    let lock = MultiLock::over(&locks);
    let guard = lock.acquire().unwrap();
    let dropped = lock.acquire().unwrap();
    servers.iter().for_each(Server::pause);
    fails_within(timeout, "extend", || guard.extend(SOON.get() * 3));
    fails_within(timeout, "is_locked", || lock.is_locked());
    within(timeout + slack(), "the drop of a guard", || drop(dropped));
    fails_within(timeout * 3, "unlock", || guard.unlock());
    fails_within(timeout, "try_lock", || {
        lock.try_lock(Duration::ZERO, Lease::RENEWED)
    });
    servers.iter().for_each(Server::resume);
    for server in &servers {
        eventually("everything to be released", || is_empty(server));
    }
    lock.acquire().unwrap().unlock().unwrap();
}

/// A failed call releases what it has acquired within its own time, or in the background.
#[test]
fn the_release_is_part_of_the_time_of_the_call() {
    let server = Server::start();
    let timeout = millis(400);
    let (ours, theirs) = (
        client_with_timeout(&server.url(), timeout),
        client(&server.url()),
    );
    let names = names();
    let last = theirs.reentrant_lock(&names[NAMES - 1]);
    last.lock_with(long()).unwrap();
    let lock = ours.multi_lock(&names);
    let wait = timeout / 2;
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            within(timeout + slack(), "try_lock", || {
                lock.try_lock(wait, Lease::RENEWED)
            })
        });
        eventually("the others to be taken", || {
            server.ask::<usize>(&redis::cmd("DBSIZE")) == NAMES
        });
        server.pause();
        let result = waiter.join().unwrap();
        assert!(!matches!(result, Ok(true)), "{result:?}");
        server.resume();
    });
    eventually("all but the last to be released", || {
        server.ask::<usize>(&redis::cmd("DBSIZE")) == 1
    });
}

/// A client whose replies are delayed by `latency`, and its proxy.
fn client_with_latency(
    server: &Server,
    latency: Duration,
    timeout: Duration,
) -> (LockClient, Proxy) {
    let proxy = Proxy::before(&server.address());
    let client = client_with_timeout(&proxy.url(), timeout);
    // From now on connections and scripts exist.
    let warm = client.multi_lock(["warm", "warmer"]);
    warm.acquire().unwrap().unlock().unwrap();
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

/// A call that fails has released what it acquired when it returns.
#[test]
fn a_held_name_is_reported_after_a_few_round_trips() {
    let server = Server::start();
    let (latency, timeout) = (millis(100), millis(1000));
    let (client, _proxy) = client_with_latency(&server, latency, timeout);
    let theirs = crate::support::client(&server.url());
    let names = names();
    let lock = client.multi_lock(&names);
    for held in [0, NAMES / 2, NAMES - 1] {
        let obstacle = theirs.reentrant_lock(&names[held]);
        obstacle.lock_with(long()).unwrap();
        let took = within(latency * 4 + slack(), "try_lock", || {
            lock.try_lock(Duration::ZERO, Lease::RENEWED)
        });
        assert!(!took.unwrap());
        assert_eq!(server.ask::<u32>(&redis::cmd("DBSIZE")), 1, "{held}");
        obstacle.unlock().unwrap();
    }
}

#[test]
fn an_uncontended_pair_is_two_commands_for_each_name() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.multi_lock(names());
    lock.acquire().unwrap().unlock().unwrap();
    let mut monitor = Monitor::of(&server);
    lock.acquire().unwrap().unlock().unwrap();
    assert_eq!(monitor.commands(), ["EVALSHA"; 2 * NAMES]);
}

/// A new server knows no script.
#[test]
fn unknown_scripts_are_sent_by_source() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.multi_lock(names());
    for _ in 0..2 {
        lock.lock().unwrap();
        let guard = lock.acquire().unwrap();
        server.ask::<()>(redis::cmd("SCRIPT").arg("FLUSH"));
        guard.extend(SOON.get()).unwrap();
        guard.unlock().unwrap();
        assert_eq!(lock.hold_count(), 1);
        server.ask::<()>(redis::cmd("SCRIPT").arg("FLUSH"));
        lock.unlock().unwrap();
        assert!(is_empty(&server));
    }
}

/// One connection serves all names of a call.
#[test]
fn a_pool_of_one_connection_is_enough() {
    let server = Server::start();
    let client = crate::support::builder(&server.url()).pool_size(1);
    let client = client.build().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let lock = client.multi_lock(names());
                for _ in 0..5 {
                    lock.acquire().unwrap().unlock().unwrap();
                }
            });
        }
    });
    assert!(is_empty(&server));
}

/// While the call waits for a name, the names before it are held and those after it are free.
#[test]
fn names_after_the_awaited_one_are_free() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let names = names();
    let at = NAMES / 2;
    let obstacle = theirs.reentrant_lock(&names[at]);
    obstacle.lock_with(long()).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let guard = ours.multi_lock(&names).acquire().unwrap();
            guard.check().unwrap();
            guard.unlock().unwrap();
        });
        let is_held = |name: &String| super::is_held(&server, name);
        eventually("those before it to be taken, and no other", || {
            names.iter().map(is_held).eq((0..NAMES).map(|n| n <= at))
        });
        let behind = theirs.multi_lock(&names[at + 1..]);
        let guard = behind.try_acquire(A_WHILE.get(), Lease::RENEWED).unwrap();
        guard.expect("they are free").unlock().unwrap();
        obstacle.unlock().unwrap();
        waiter.join().unwrap();
    });
    assert!(is_empty(&server));
}
