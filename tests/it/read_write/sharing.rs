//! Readers of one client share a grant. `local::queue::tests` has the rules for each hold on it.

use std::sync::Barrier;

use super::{can_write, keys, two_clients};
use crate::support::prelude::*;

const READERS: usize = 20;

#[test]
fn readers_that_wait_for_a_writer_send_one_command_together() {
    let (server, ours, theirs) = two_clients();
    // Loads the scripts.
    pair(&ours.read());
    let writing = theirs.write().acquire().unwrap();
    let (lock, all_read) = (ours.read(), Barrier::new(READERS + 1));
    thread::scope(|scope| {
        let readers = [(); READERS].map(|()| {
            scope.spawn(|| {
                let guard = lock.acquire().unwrap();
                all_read.wait();
                all_read.wait();
                guard.unlock().unwrap();
            })
        });
        throughout(A_WHILE.get(), "they wait", || {
            readers.iter().all(|reader| !reader.is_finished())
        });
        let mut monitor = Monitor::of(&server);
        writing.unlock().unwrap();
        all_read.wait();
        let fields: Vec<String> = server.query("HKEYS lock");
        assert_eq!(fields.len(), 2, "the mode and one reader: {fields:?}");
        let commands = monitor.commands();
        let scripts = commands.iter().filter(|name| *name == "EVALSHA").count();
        assert!(
            scripts <= 3,
            "a release and one or two requests: {commands:?}"
        );
        assert!(!can_write(&theirs));
        monitor.commands();
        all_read.wait();
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!(monitor.commands(), ["EVALSHA"], "one release");
    });
    assert_eq!(keys(&server), [""; 0]);
}

#[test]
fn the_loss_of_a_grant_is_reported_to_all_its_readers() {
    let (server, ours, theirs) = two_clients();
    let lock = ours.read();
    let (all_read, deleted) = (Barrier::new(4), Barrier::new(4));
    thread::scope(|scope| {
        let readers = [(); 3].map(|()| {
            scope.spawn(|| {
                let guard = lock.acquire().unwrap();
                lock.lock().unwrap();
                all_read.wait();
                deleted.wait();
                let reason = guard.lost().recv_timeout(SOON.get()).unwrap();
                assert_eq!(reason, LostReason::Deleted);
                assert!(guard.check().is_err() && lock.hold_count() == 0);
                for result in [
                    lock.lock(),
                    ours.write().lock(),
                    lock.unlock(),
                    guard.unlock(),
                ] {
                    assert_matches!(result, Err(Error::Lost { .. }));
                }
                pair(&lock);
            })
        });
        all_read.wait();
        server.delete("lock");
        within(LEASE.get() + SLIP.get(), "the notifications", || {
            deleted.wait();
            for reader in readers {
                reader.join().unwrap();
            }
        });
    });
    pair(&theirs.write());
}

/// A thread that gives up while it gets a share of a grant leaves nothing.
#[test]
fn waits_that_end_when_the_writer_unlocks_leave_nothing() {
    let (server, ours, _) = two_clients();
    for round in 0..100_u64 {
        let writing = ours.write().acquire().unwrap();
        thread::scope(|scope| {
            for reader in 0..4 {
                let (lock, wait) = (ours.read(), Duration::from_micros(500 + 97 * reader));
                scope.spawn(move || {
                    if lock.try_lock(wait, Lease::RENEWED).unwrap() {
                        lock.unlock().unwrap();
                    }
                });
            }
            thread::sleep(Duration::from_micros(400 + round * 5));
            writing.unlock().unwrap();
        });
        assert!(can_write(&ours), "round {round}");
    }
    assert_eq!(keys(&server), [""; 0]);
}
