//! Readers of one client share a grant.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leasehold::{Error, Lease, LostReason};

use super::{can_write, keys, two_clients};
use crate::support::on_another_thread;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SLIP, SOON, eventually, throughout, within};
use crate::support::traffic::Monitor;
use crate::support::{builder, client};

const READERS: usize = 20;

#[test]
fn readers_that_wait_for_a_writer_send_one_command_together() {
    let (server, ours, theirs) = two_clients();
    // Loads the scripts.
    ours.read().acquire().unwrap().unlock().unwrap();
    let writing = theirs.write().acquire().unwrap();
    let (lock, all_read) = (ours.read(), Barrier::new(READERS + 1));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                scope.spawn(|| {
                    let guard = lock.acquire().unwrap();
                    all_read.wait();
                    all_read.wait();
                    guard.unlock().unwrap();
                })
            })
            .collect();
        throughout(A_WHILE.get(), "they wait", || {
            readers.iter().all(|reader| !reader.is_finished())
        });
        let mut monitor = Monitor::of(&server);
        writing.unlock().unwrap();
        all_read.wait();
        let fields: Vec<String> = server.ask(redis::cmd("HKEYS").arg("lock"));
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

/// The grant ends with the last of its holds, also if that is not the first one.
#[test]
fn the_last_reader_releases_the_grant() {
    let (server, ours, theirs) = two_clients();
    let lock = ours.read();
    let first = lock.acquire().unwrap();
    let (go, gone) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            let guard = lock.acquire().unwrap();
            lock.lock().unwrap();
            go.wait();
            gone.wait();
            assert_eq!(lock.hold_count(), 2);
            throughout(LEASE.get() * 2, "held", || guard.check().is_ok());
            lock.unlock().unwrap();
            guard.unlock().unwrap();
        });
        go.wait();
        assert_eq!(lock.hold_count(), 1, "levels belong to a thread");
        first.unlock().unwrap();
        assert!(!lock.is_held_by_current_thread());
        assert!(matches!(lock.unlock(), Err(Error::NotHeld { .. })));
        gone.wait();
        throughout(LEASE.get(), "no writer", || !can_write(&theirs));
        second.join().unwrap();
    });
    assert!(can_write(&theirs));
    assert_eq!(keys(&server), [""; 0]);
}

#[test]
fn the_loss_of_a_grant_is_reported_to_all_its_readers() {
    let (server, ours, theirs) = two_clients();
    let lock = ours.read();
    let (all_read, deleted) = (Barrier::new(4), Barrier::new(4));
    let other = theirs.write();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let guard = lock.acquire().unwrap();
                    lock.lock().unwrap();
                    all_read.wait();
                    deleted.wait();
                    let reason = guard.lost().recv_timeout(SOON.get()).unwrap();
                    assert_eq!(reason, LostReason::Deleted);
                    assert!(guard.check().is_err() && lock.hold_count() == 0);
                    assert!(matches!(lock.lock(), Err(Error::Lost { .. })));
                    assert!(matches!(ours.write().lock(), Err(Error::Lost { .. })));
                    assert!(matches!(lock.unlock(), Err(Error::Lost { .. })));
                    assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
                    lock.acquire().unwrap().unlock().unwrap();
                })
            })
            .collect();
        all_read.wait();
        let fields: Vec<String> = server.ask(redis::cmd("HKEYS").arg("lock"));
        assert_eq!(fields.len(), 2, "one grant: {fields:?}");
        server.ask::<u32>(redis::cmd("DEL").arg("lock"));
        within(LEASE.get() + SLIP.get(), "the notifications", || {
            deleted.wait();
            readers
                .into_iter()
                .for_each(|reader| reader.join().unwrap());
        });
    });
    assert_eq!(client_of(&server).stats().lost, 0);
    other.acquire().unwrap().unlock().unwrap();
}

fn client_of(server: &Server) -> leasehold::LockClient {
    client(&server.url())
}

/// A fixed lease ends on time, although other readers of the client are renewed.
#[test]
fn a_reader_with_a_fixed_lease_has_a_grant_of_its_own() {
    let (server, ours, _) = two_clients();
    let lock = ours.read();
    let renewed = lock.acquire().unwrap();
    on_another_thread(|| {
        let fixed = lock.acquire_with(Lease::fixed(A_WHILE.get())).unwrap();
        let fields: Vec<String> = server.ask(redis::cmd("HKEYS").arg("lock"));
        assert_eq!(fields.len(), 3, "{fields:?}");
        let reason = fixed.lost().recv_timeout(SOON.get());
        assert_eq!(reason, Ok(LostReason::Expired));
        assert!(fixed.unlock().is_err());
    });
    renewed.check().unwrap();
    renewed.unlock().unwrap();
    assert_eq!(keys(&server), [""; 0]);
}

/// What is left of a hold ends on time, although another thread keeps the grant.
#[test]
fn the_rest_of_a_hold_on_a_shared_grant_ends_by_its_own_lease() {
    let (server, ours, theirs) = two_clients();
    let lock = ours.read();
    let renewed = lock.acquire().unwrap();
    for rest in [Lease::fixed(LEASE.get()), Lease::renewed_at_most(1)] {
        on_another_thread(|| {
            let first = lock.acquire().unwrap();
            let rest = lock.acquire_with(rest).unwrap();
            first.unlock().unwrap();
            let bound = LEASE.get() * 3;
            let reason = within(bound, "the end", || rest.lost().recv_timeout(SOON.get()));
            let expected = [LostReason::Expired, LostReason::RenewalLimit];
            assert!(expected.contains(&reason.unwrap()));
            renewed.check().unwrap();
            assert!(matches!(rest.unlock(), Err(Error::Lost { .. })));
            lock.acquire().unwrap().unlock().unwrap();
        });
    }
    throughout(LEASE.get() * 2, "the other thread reads", || {
        renewed.check().is_ok() && !can_write(&theirs)
    });
    renewed.unlock().unwrap();
    assert_eq!(keys(&server), [""; 0]);
}

/// An extension is that of the hold that asked for it.
#[test]
fn an_extension_concerns_one_reader() {
    let (_server, ours, _) = two_clients();
    let lock = ours.read();
    let guard = lock.acquire().unwrap();
    on_another_thread(|| {
        let other = lock.acquire().unwrap();
        other.extend(SOON.get() * 6).unwrap();
        other.confirm().unwrap();
        assert!(other.remaining() > SOON.get() && guard.remaining() <= LEASE.get());
        other.unlock().unwrap();
    });
    guard.unlock().unwrap();
}

#[test]
fn a_client_that_lingers_reads_again_without_a_request() {
    let server = Server::start();
    let client = builder(&server.url())
        .linger(LEASE.get() / 3)
        .build()
        .unwrap();
    let lock = client.read_write_lock("lock");
    lock.read().acquire().unwrap().unlock().unwrap();
    let mut monitor = Monitor::of(&server);
    on_another_thread(|| lock.read().acquire().unwrap().unlock()).unwrap();
    assert_eq!(monitor.commands(), [""; 0]);
    // A writer of the same client releases it first, and lingers, too.
    within(SLIP.get(), "all of these", || {
        lock.write().acquire().unwrap().unlock().unwrap();
        lock.write().acquire().unwrap().unlock().unwrap();
        lock.read().acquire().unwrap().unlock().unwrap();
    });
    drop((lock, client));
    eventually("no key", || keys(&server).is_empty());
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

/// They share one grant, which is released once.
#[test]
fn of_readers_that_keep_the_lock_in_redis_the_longest_time_counts() {
    let (server, ours, theirs) = two_clients();
    let lock = ours.read();
    let first = lock.acquire().unwrap();
    on_another_thread(|| {
        let second = lock.acquire().unwrap();
        let fields: Vec<String> = server.ask(redis::cmd("HKEYS").arg("lock"));
        assert_eq!(fields.len(), 2, "the mode and one reader: {fields:?}");
        second.unlock_after(SOON.get()).unwrap();
    });
    first.unlock_after(Duration::from_millis(1)).unwrap();
    throughout(A_WHILE.get(), "kept", || !can_write(&theirs));
    let left: i64 = server.ask(redis::cmd("PTTL").arg("lock"));
    assert!(left > i64::try_from(SOON.get().as_millis()).unwrap() / 2);
}
