//! How scripts get to the server, and that a failed script leaves nothing behind.

use std::time::Instant;

use leasehold::{Error, Lease, Lock};

use crate::support::client;
use crate::support::server::Server;
use crate::support::server::program::is_redis_7;
use crate::support::timing::{LEASE, eventually};
use crate::support::traffic::Monitor;

/// Sent by source once, and by hash from then on.
#[test]
fn the_source_of_a_script_is_sent_once() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.reentrant_lock("lock");
    let mut monitor = Monitor::of(&server);
    lock.lock().unwrap();
    lock.unlock().unwrap();
    // The name of the connection comes with the first request. Before Redis 7, MONITOR hides it.
    let name: &[&str] = if is_redis_7() { &["CLIENT"] } else { &[] };
    let expected = [name, &["EVALSHA", "EVAL", "EVALSHA", "EVAL"]].concat();
    assert_eq!(monitor.commands(), expected);
    lock.lock().unwrap();
    lock.unlock().unwrap();
    assert_eq!(monitor.commands(), ["EVALSHA", "EVALSHA"]);
}

/// A server without the scripts (after a restart or SCRIPT FLUSH) gets them again, without an
/// error.
#[test]
fn a_server_without_the_scripts_gets_them_again() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.reentrant_lock("lock");
    lock.acquire().unwrap().unlock().unwrap();
    let mut monitor = Monitor::of(&server);
    let forget = || server.ask::<()>(redis::cmd("SCRIPT").arg("FLUSH"));
    let scripts = |monitor: &mut Monitor<'_>| {
        let mut commands = monitor.commands();
        commands.retain(|command| command.starts_with("EVAL"));
        commands
    };
    for step in [Lock::lock, Lock::unlock] {
        forget();
        step(&lock).unwrap();
        assert_eq!(scripts(&mut monitor), ["EVALSHA", "EVAL"]);
    }
    let guard = lock.acquire().unwrap();
    let renewals = client.stats().renewals;
    forget();
    eventually("a renewal", || client.stats().renewals > renewals);
    guard.check().unwrap();
    guard.unlock().unwrap();
    assert_eq!(
        (client.stats().lost, client.stats().renewals_failed),
        (0, 0)
    );
}

/// Only reads and writes are sent: no SCRIPT LOAD, no KEYS, no PING before commands. A subscription
/// that received nothing for five seconds sends one PING.
#[test]
fn only_the_expected_commands_are_sent() {
    let start = Instant::now();
    let server = Server::start();
    let mut monitor = Monitor::of(&server);
    let clients = [client(&server.url()), client(&server.url())];
    let [ours, theirs] = [&clients[0], &clients[1]].map(|client| client.reentrant_lock("lock"));
    let guard = ours.acquire().unwrap();
    assert!(!theirs.try_lock(LEASE.get() * 2, Lease::RENEWED).unwrap());
    guard.unlock().unwrap();
    let mut commands = monitor.commands();
    let idle_periods = start.elapsed().as_secs() / 5;
    let pings = commands.extract_if(.., |command| command == "PING");
    assert!(pings.count() as u64 <= idle_periods);
    for command in commands {
        let known = ["CLIENT", "EVALSHA", "EVAL", "SUBSCRIBE", "PUBLISH"];
        assert!(known.contains(&command.as_str()), "{command}");
    }
}

/// A server out of memory refuses the whole acquire: no key without a time to live is left.
#[test]
fn a_script_that_fails_leaves_no_key_behind() {
    let server = Server::start();
    let client = client(&server.url());
    let held = client.reentrant_lock("held");
    held.lock_with(Lease::fixed(LEASE.get() * 20)).unwrap();
    let set = |memory: u32| {
        let mut config = redis::cmd("CONFIG");
        config.arg("SET").arg("maxmemory").arg(memory);
        server.ask::<()>(&config);
    };
    set(1);
    let refused = client.reentrant_lock("lock").lock();
    assert!(matches!(refused, Err(Error::Redis { .. })), "{refused:?}");
    let keys: Vec<String> = server.ask(redis::cmd("KEYS").arg("*"));
    assert_eq!(keys, ["held"]);
    set(0);
    held.unlock().unwrap();

    // A user who may write the hash, but not its expiry.
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER").arg("half").arg("on").arg(">secret");
    acl.arg(&["~*", "&*", "+@all", "-pexpire"]);
    server.ask::<()>(&acl);
    let url = format!("redis://half:secret@{}", server.address());
    let half = crate::support::client(&url);
    let lock = half.reentrant_lock("half");
    let refused = lock.lock();
    assert!(matches!(refused, Err(Error::Redis { .. })), "{refused:?}");
    let left: i64 = server.ask(redis::cmd("PTTL").arg("half"));
    assert_ne!(left, -1, "a lock without a holder that never expires");
}
