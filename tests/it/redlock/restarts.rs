//! Servers that restart without their data while the lock is held.

use std::time::Duration;

use leasehold::Lease;

use super::{Servers, take_all};
use crate::support::timing::{LEASE, SLIP, SOON, eventually, throughout, within};

/// If a minority forgets the lock, one after the other, no other client gets it, and its holder
/// keeps it. With one more server, the documented limit is reached, and the holder is notified.
#[test]
#[ignore = "soak"]
fn a_minority_that_forgets_the_lock_does_not_release_it() {
    let servers = Servers::start(5);
    let rival = servers.lock();
    let clients = servers.clients();
    let guard = take_all(&clients, Lease::RENEWED);
    for forgetful in &servers.0[..2] {
        forgetful.restart_empty();
        throughout(LEASE.get(), "the hold", || {
            let taken = rival.try_lock(Duration::ZERO, Lease::RENEWED).unwrap();
            guard.check().unwrap();
            !taken && guard.lost().is_empty()
        });
    }
    servers.0[2].restart_empty();
    let loss = within(LEASE.get() + SLIP.get(), "the notification", || {
        guard.lost().recv_timeout(SOON.get())
    });
    assert!(loss.is_ok() && guard.check().is_err());
    drop(guard);
    eventually("what was left of it", || servers.held() == 0);
    assert!(rival.try_lock(LEASE.get(), Lease::RENEWED).unwrap());
    rival.unlock().unwrap();
}
