//! Holders that are killed or stopped.

use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Lease, LockClient, RedLock};

use super::{NAME, Servers};
use crate::support::builder;
use crate::support::child::{self, Process};
use crate::support::server::Server;
use crate::support::timing::{LEASE, SLIP, SOON, millis, throughout};

/// Long enough to renew in time on a busy machine.
fn lease() -> Duration {
    LEASE.get() * 2
}

/// The role: holds the lock until it was stopped for a lease, and reports the result of its first
/// call then.
pub fn hold_majority(arguments: &[&str]) {
    let build = |url| builder(url).watchdog_lease(lease()).build().unwrap();
    let clients: Vec<LockClient> = arguments[0].split(' ').map(build).collect();
    let guard = RedLock::new(&clients, NAME).acquire().unwrap();
    child::send_line("held");
    let mut before = Instant::now();
    loop {
        let checked = guard.check();
        let now = Instant::now();
        if now - before >= lease() {
            break;
        }
        checked.expect("nothing has happened");
        before = now;
        thread::sleep(millis(1));
    }
    let checked = guard.check();
    assert!(matches!(checked, Err(Error::Lost { .. })), "{checked:?}");
    assert_eq!(guard.remaining(), Duration::ZERO);
    let unlocked = guard.unlock();
    assert!(matches!(unlocked, Err(Error::Lost { .. })), "{unlocked:?}");
    child::send_line("notified");
    child::read_line();
}

fn holder(servers: &Servers) -> Process {
    let urls: Vec<String> = servers.0.iter().map(Server::url).collect();
    let holder = Process::start("hold_majority", &[&urls.join(" ")]);
    assert_eq!(holder.read_line(), "held");
    holder
}

#[test]
fn a_killed_holder_releases_the_lock_within_a_lease() {
    let servers = Servers::start(5);
    let mut holder = holder(&servers);
    let lock = servers.lock();
    assert!(!lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    throughout(lease() * 3 / 2, "held by a process that lives", || {
        lock.is_locked().unwrap()
    });
    let held = lock.remaining_lease().unwrap();
    holder.kill();
    let killed = Instant::now();
    assert!(held.is_some() && lock.try_lock(SOON.get(), Lease::RENEWED).unwrap());
    let took = killed.elapsed();
    assert!(took <= lease() + SLIP.get() * 2, "{took:?}");
    lock.unlock().unwrap();
}

/// The holders on each server, and the end of the lease by that server's clock.
fn rows(servers: &Servers) -> Vec<(Vec<(String, u32)>, i64)> {
    let row = |server: &Server| {
        let holders = server.ask(redis::cmd("HGETALL").arg(NAME));
        (holders, server.ask(redis::cmd("PEXPIRETIME").arg(NAME)))
    };
    servers.0.iter().map(row).collect()
}

#[test]
#[ignore = "soak"]
fn a_holder_that_was_stopped_for_two_leases_is_notified_and_changes_nothing() {
    let servers = Servers::start(5);
    let mut holder = holder(&servers);
    holder.pause();
    let paused = Instant::now();
    let rival = servers.lock();
    let long = Lease::fixed(SOON.get() * 6);
    assert!(rival.try_lock(SOON.get(), long).unwrap());
    thread::sleep((lease() * 2).saturating_sub(paused.elapsed()));
    let before = rows(&servers);
    holder.resume();
    assert_eq!(holder.read_line(), "notified");
    assert_eq!(rows(&servers), before);
    rival.unlock().unwrap();
    holder.send_line("end");
    holder.finish();
}
