//! Holds on a majority: levels, leases and losses.

use super::{NAME, Servers, take_all};
use crate::faults::force_unlock::{a_waiting_thread_gets_the_lock_within_a_second, long};
use crate::support::prelude::*;

#[test]
fn the_loss_of_a_majority_is_reported_and_that_of_a_minority_is_not() {
    let servers = Servers::start(5);
    let clients = servers.clients();
    let lock = RedLock::new(&clients, NAME);
    let guard = take_all(&clients, Lease::RENEWED);
    assert!(guard.lost().is_empty());
    servers.delete(0..2);
    throughout(LEASE.get() * 2, "the majority", || {
        guard.check().unwrap();
        guard.lost().is_empty() && lock.hold_count() == 1
    });
    servers.delete(2..3);
    assert_eq!(
        guard.lost().recv_timeout(SOON.get()),
        Ok(LostReason::Deleted)
    );
    assert!(guard.is_lost() && guard.remaining() == Duration::ZERO);
    assert_eq!(lock.hold_count(), 0);
    // The thread cannot acquire the lock again while other code of it relies on the lost hold.
    assert_matches!(lock.lock(), Err(Error::Lost { .. }));
    assert_matches!(guard.unlock(), Err(Error::Lost { .. }));
    eventually("what was left of it", || servers.held() == 0);
    eventually("no hold to be counted", || {
        clients.iter().all(|client| client.stats().held == 0)
    });
    pair(&lock);
}

/// Threads of one process wait in the queue of one of the servers. The client confirms all parts of
/// the hold.
#[test]
fn a_waiting_thread_gets_the_lock_within_a_second_whichever_majority_lost_it() {
    let servers = Servers::start(3);
    let lock = servers.lock();
    for kept in 0..3 {
        let lease = Lease::RENEWED.lasting(long());
        a_waiting_thread_gets_the_lock_within_a_second(&lock, lease, || {
            (0..3)
                .filter(|&at| at != kept)
                .for_each(|at| servers.delete(at..at + 1));
        });
    }
}
