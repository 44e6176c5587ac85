//! A holder that is killed.

use std::time::{Duration, Instant};

use leasehold::{Lease, LockClient, RedLock};

use super::{NAME, Servers};
use crate::support::child::{self, Process};
use crate::support::client;
use crate::support::server::Server;
use crate::support::timing::{LEASE, SLIP, SOON, throughout};

/// The role: holds the lock until the process is killed.
pub fn hold_majority(arguments: &[&str]) {
    let clients: Vec<LockClient> = arguments[0].split(' ').map(client).collect();
    let _guard = RedLock::new(&clients, NAME).acquire().unwrap();
    child::send_line("held");
    child::read_line();
}

#[test]
fn a_killed_holder_releases_the_lock_within_a_lease() {
    let servers = Servers::start(5);
    let urls: Vec<String> = servers.0.iter().map(Server::url).collect();
    let mut holder = Process::start("hold_majority", &[&urls.join(" ")]);
    assert_eq!(holder.read_line(), "held");
    let lock = servers.lock();
    assert!(!lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    throughout(LEASE.get() * 2, "held by a process that lives", || {
        lock.is_locked().unwrap()
    });
    holder.kill();
    let killed = Instant::now();
    assert!(lock.try_lock(SOON.get(), Lease::RENEWED).unwrap());
    let took = killed.elapsed();
    assert!(took <= LEASE.get() + SLIP.get() * 2, "{took:?}");
    lock.unlock().unwrap();
}
