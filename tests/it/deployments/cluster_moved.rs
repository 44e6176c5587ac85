//! A slot moves to another primary.

use std::slice;

use super::{client_for_failovers, of_cluster};
use crate::support::prelude::*;

/// A held lock moves with its slot, and the waiting client gets it after the release.
#[test]
fn a_hold_moves_with_its_slot_and_its_waiter_gets_it() {
    for unlocked_early in [false, true] {
        let cluster = ClusterDeployment::start();
        let (holder, waiter) = (
            client_for_failovers(of_cluster(&cluster)),
            client_for_failovers(of_cluster(&cluster)),
        );
        let name = unique("moves");
        let slot = cluster.slot_of(&name);
        let lock = holder.fenced_lock(&name);
        // Longer than the test, so that no waiter is woken by its end.
        lock.lock_with(Lease::fixed(SOON.get() * 9)).unwrap();
        let kept = holder.reentrant_lock(&format!("{{{name}}}:kept"));
        kept.lock().unwrap();
        kept.lock().unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let lock = waiter.fenced_lock(&name);
                let guard = lock.try_acquire(SOON.get() * 6, Lease::RENEWED).unwrap();
                guard.expect("it is unlocked").unlock().unwrap();
            });
            eventually("a client to wait", || waiter.stats().wakeups_by_message > 0);
            let to = cluster.another_primary(slot);
            let migration = cluster.begin_migration(slot, to);
            migration.move_keys();
            if unlocked_early {
                lock.unlock().unwrap();
            }
            migration.end();
            let before = holder.stats().renewals;
            eventually("a renewal where the slot is now", || {
                holder.stats().renewals > before
            });
            let is_there: bool = to.ask(redis::cmd("EXISTS").arg(kept.name()));
            assert!(is_there);
            if !unlocked_early {
                lock.unlock().unwrap();
            }
            eventually("the waiter to get it", || waiting.is_finished());
            waiting.join().unwrap();
        });
        assert_eq!(holder.stats().lost, 0);
        kept.unlock().unwrap();
        eventually("the count of the level that is left", || {
            holder.inspect(kept.name()).unwrap().hold_count == 1
        });
        kept.unlock().unwrap();
        assert!(!kept.is_locked().unwrap());
    }
}

/// The waiting client listens at the old server, and the message of the script reaches the new one.
#[test]
fn a_release_while_its_slot_moves_wakes_a_waiter_that_listens_at_the_old_server() {
    let ends: [fn(OwnedGuard); 2] = [|guard| guard.unlock().unwrap(), drop];
    for end in ends {
        let cluster = ClusterDeployment::start();
        let [ours, theirs] = [(); 2].map(|()| client_for_failovers(of_cluster(&cluster)));
        let name = unique("moves");
        let slot = cluster.slot_of(&name);
        let lease = Lease::fixed(SOON.get() / 2);
        let guard = ours.reentrant_lock(&name).acquire_owned(lease).unwrap();
        let migration = cluster.begin_migration(slot, cluster.another_primary(slot));
        let waiting_lock = theirs.reentrant_lock(&name);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| pair(&waiting_lock));
            eventually("a client to wait", || theirs.stats().wakeups_by_message > 0);
            stay_waiting(slice::from_ref(&waiting));
            migration.move_keys();
            let by_timeout = theirs.stats().wakeups_by_timeout;
            within(SLIP.get(), "the wake-up", || {
                end(guard);
                waiting.join().unwrap();
            });
            assert_eq!(theirs.stats().wakeups_by_timeout, by_timeout);
        });
        migration.end();
    }
}

/// While its slot moves, the lock's other keys cannot be made: the request is repeated.
#[test]
fn a_second_reader_waits_for_the_end_of_the_move() {
    let cluster = ClusterDeployment::start();
    let [ours, theirs] = [(); 2].map(|()| client_for_failovers(of_cluster(&cluster)));
    let name = unique("moves");
    let reading = ours.read_write_lock(&name).read().acquire().unwrap();
    let slot = cluster.slot_of(&name);
    let migration = cluster.begin_migration(slot, cluster.another_primary(slot));
    let read = theirs.read_write_lock(&name).read();
    thread::scope(|scope| {
        let second = scope.spawn(|| pair(&read));
        throughout(SLIP.get(), "it waits", || !second.is_finished());
        migration.move_keys();
        within(SOON.get(), "the second reader", || second.join().unwrap());
    });
    migration.end();
    reading.unlock().unwrap();
    pair(&theirs.read_write_lock(&name).write());
}

/// The lease of a reader has a key of its own. While it is at the old server and the lock at the new
/// one, a writer does not take the reader for dead, and a renewal of the lock alone is no renewal.
#[test]
fn a_lock_that_moves_before_the_lease_of_its_reader_stays_locked() {
    let cluster = ClusterDeployment::start();
    let [ours, theirs] = [(); 2].map(|()| client_for_failovers(of_cluster(&cluster)));
    let name = unique("moves");
    let reading = ours.read_write_lock(&name).read().acquire().unwrap();
    let write = theirs.read_write_lock(&name).write();
    let slot = cluster.slot_of(&name);
    let migration = cluster.begin_migration(slot, cluster.another_primary(slot));
    migration.move_these(&[&name]);
    assert!(!write.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    let before = ours.stats();
    eventually("a renewal that fails", || {
        ours.stats().renewals_failed > before.renewals_failed
    });
    assert_eq!(ours.stats().renewals, before.renewals);
    assert!(!write.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    migration.move_keys();
    eventually("a renewal", || ours.stats().renewals > before.renewals);
    migration.end();
    reading.unlock().unwrap();
    pair(&write);
}
