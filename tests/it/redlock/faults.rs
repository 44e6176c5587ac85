//! Servers that are dead or hang.

use super::{COMMAND, NAME, Servers, take_all};
use crate::support::prelude::*;

/// Enough pairs to detect a timeout in each.
const PAIRS: usize = 100;

/// Once the first timeout is over, later pairs take as long as the other servers do.
#[test]
fn a_minority_that_is_dead_or_hangs_delays_no_call() {
    for (count, gone) in [(3, 1), (5, 2)] {
        for hangs in [true, false] {
            let fault = if hangs { Server::pause } else { Server::kill };
            let servers = Servers::start(count);
            let lock = servers.lock_with_short_timeout();
            pair(&lock);
            servers.0[..gone].iter().for_each(fault);
            let mut times: Vec<Duration> = (0..PAIRS)
                .map(|_| {
                    let start = Instant::now();
                    let guard = lock.acquire().unwrap();
                    guard.check().unwrap();
                    guard.unlock().unwrap();
                    start.elapsed()
                })
                .collect();
            times.sort_unstable();
            let median = times[times.len() / 2];
            assert!(
                median < millis(COMMAND) / 2,
                "{median:?} with {gone} of {count} gone"
            );
        }
    }
}

#[test]
#[ignore = "soak"]
fn a_majority_that_is_dead_or_hangs_is_reported_in_time() {
    for fault in [Server::pause, Server::kill] {
        let servers = Servers::start(5);
        let lock = servers.lock_with_short_timeout();
        pair(&lock);
        servers.0[..3].iter().for_each(fault);
        let command = millis(COMMAND);
        for (budget, call) in [
            (
                command * 3,
                &(|| lock.try_lock(Duration::ZERO, Lease::RENEWED).map(drop)) as &dyn Fn() -> _,
            ),
            (command * 12, &|| lock.lock()),
            (command * 3, &|| lock.is_locked().map(drop)),
        ] {
            let result = within(budget + SLIP.get() * 4, "the call", call);
            let Err(Error::Unavailable { lock, node, .. }) = &result else {
                panic!("{result:?}")
            };
            assert_eq!(lock, NAME);
            for server in &servers.0[..3] {
                assert!(node.contains(&server.address()), "{node}");
            }
        }
        for server in &servers.0[3..] {
            eventually("the lock to be released", || !server.has(NAME));
        }
    }
}

/// The second copy of a request whose connection was cut does not wait for the server that hangs.
#[test]
fn a_cut_connection_fails_no_call_while_another_server_hangs() {
    let servers = Servers::start(3);
    let lock = servers.lock_with_short_timeout();
    let cut = || servers.0[1].cut("normal");
    lock.lock().unwrap();
    servers.0[2].pause();
    cut();
    lock.unlock().unwrap();
    cut();
    assert!(lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    lock.unlock().unwrap();
    servers.0[2].resume();
}

/// An unlock does not wait for these servers. They get the release when they are back.
#[test]
fn a_release_does_not_wait_for_dead_servers() {
    let servers = Servers::start(5);
    // Longer than the test, so that no lease releases the lock.
    let lease = long();
    let clients = servers.clients_with_short_timeout();
    let guard = take_all(&clients, lease);
    servers.0[..2].iter().for_each(Server::pause);
    let unlocked = within(millis(COMMAND) + SLIP.get() * 2, "the unlock", || {
        guard.unlock()
    });
    unlocked.unwrap();
    let held = |server: &Server| server.has(NAME);
    assert!(!servers.0[2..].iter().any(held));
    servers.0[..2].iter().for_each(Server::resume);
    eventually("the release in the background", || servers.held() == 0);
}

/// In the end the level is added on all servers.
#[test]
fn a_nested_hold_needs_no_more_than_a_majority() {
    let servers = Servers::start(3);
    let clients = servers.clients_with_short_timeout();
    let lock = RedLock::new(&clients, NAME);
    let outer = take_all(&clients, Lease::RENEWED);
    servers.0[0].pause();
    let nested = within(
        millis(COMMAND) * 2 + SLIP.get() * 2,
        "the nested call",
        || lock.acquire(),
    );
    let nested = nested.unwrap();
    assert_eq!(lock.hold_count(), 2);
    servers.0[0].resume();
    eventually("the count there", || servers.counts() == [2, 2, 2]);
    nested.unlock().unwrap();
    eventually("the count everywhere", || servers.counts() == [1, 1, 1]);
    outer.unlock().unwrap();
    eventually("the lock to be free", || servers.held() == 0);
}

/// A waiter releases what a minority grants to it. Its own release does not wake it.
#[test]
#[ignore = "soak"]
fn a_waiter_does_not_wake_itself_while_a_majority_is_dead() {
    let servers = Servers::start(3);
    let guard = take_all(&servers.clients(), Lease::RENEWED);
    let (clients, interrupt) = (servers.clients(), Interrupt::new());
    let waiter = RedLock::new(&clients, NAME);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.lock_interruptibly(Lease::RENEWED, &interrupt));
        stay_waiting([&waiting]);
        servers.0[1..].iter().for_each(Server::kill);
        let scripts = || traffic::scripts(&servers.0[0]);
        let before = scripts();
        drop(guard);
        // After its first pauses, which are short.
        eventually("some failed attempts", || scripts() > before + 14);
        let (before, time) = (scripts(), Duration::from_secs(4));
        thread::sleep(time);
        let calls = scripts() - before;
        interrupt.interrupt();
        assert_error!(waiting.join().unwrap(), Interrupted);
        // Each attempt acquires and releases, and the pauses are 0.4 s long.
        assert!(calls <= 26, "{calls} script calls in {time:?}");
    });
}
