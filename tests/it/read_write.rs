//! The read-write lock.

mod cluster;
mod dead_readers;
mod exclusion;
mod faults;
mod layout;
mod permissions;
mod sharing;
mod starvation;
mod turns;

use std::thread;
use std::time::Duration;

use leasehold::{Error, Lease, ReadWriteLock};

use crate::line;
use crate::support::child::{self, Process};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SLIP, SOON, eventually, millis, throughout, within};
use crate::support::traffic::Monitor;
use crate::support::{client, on_another_thread};

/// A server, and the lock `lock` of two clients.
fn two_clients() -> (Server, ReadWriteLock, ReadWriteLock) {
    let server = Server::start();
    let lock = || client(&server.url()).read_write_lock("lock");
    let (ours, theirs) = (lock(), lock());
    (server, ours, theirs)
}

/// All keys in Redis.
fn keys(server: &Server) -> Vec<String> {
    let mut keys: Vec<String> = server.ask(redis::cmd("KEYS").arg("*"));
    keys.retain(|key| {
        let left: i64 = server.ask(redis::cmd("PTTL").arg(key));
        assert!(left != -1, "{key} never ends");
        left != -2
    });
    keys
}

/// The number of clients that wait for the lock `lock`.
fn waiting(server: &Server) -> usize {
    line::places(server, "lock").len()
}

fn can_read(lock: &ReadWriteLock) -> bool {
    let lock = lock.read();
    on_another_thread(|| {
        let is_acquired = lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap();
        if is_acquired {
            lock.unlock().unwrap();
        }
        is_acquired
    })
}

fn can_write(lock: &ReadWriteLock) -> bool {
    let lock = lock.write();
    on_another_thread(|| {
        let is_acquired = lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap();
        if is_acquired {
            lock.unlock().unwrap();
        }
        is_acquired
    })
}

#[test]
fn readers_exclude_writers_and_no_readers() {
    let (server, ours, theirs) = two_clients();
    let reading = ours.read().acquire().unwrap();
    for lock in [&ours, &theirs] {
        assert!(can_read(lock) && !can_write(lock));
    }
    assert!(ours.read().is_locked().unwrap() && !ours.write().is_locked().unwrap());
    reading.unlock().unwrap();
    assert!(can_write(&ours) && can_write(&theirs));
    assert_eq!(keys(&server), [""; 0]);
}

#[test]
fn a_writer_excludes_all_others() {
    let (server, ours, theirs) = two_clients();
    let writing = ours.write().acquire().unwrap();
    for lock in [&ours, &theirs] {
        assert!(!can_read(lock) && !can_write(lock));
    }
    assert!(!ours.read().is_locked().unwrap() && ours.write().is_locked().unwrap());
    writing.unlock().unwrap();
    assert!(can_read(&ours) && can_write(&theirs));
    assert_eq!(keys(&server), [""; 0]);
}

#[test]
fn a_writer_that_also_reads_can_unlock_in_any_order() {
    let (server, ours, theirs) = two_clients();
    let (read, write) = (ours.read(), ours.write());
    for is_write_first in [true, false] {
        write.lock().unwrap();
        read.lock().unwrap();
        read.lock().unwrap();
        write.lock().unwrap();
        assert_eq!((read.hold_count(), write.hold_count()), (2, 2));
        assert!(read.is_locked().unwrap() && write.is_locked().unwrap());
        assert!(!can_read(&theirs) && !can_read(&ours));
        write.unlock().unwrap();
        read.unlock().unwrap();
        if is_write_first {
            write.unlock().unwrap();
            assert!(!write.is_held_by_current_thread());
            for lock in [&ours, &theirs] {
                assert!(can_read(lock) && !can_write(lock));
            }
            read.unlock().unwrap();
        } else {
            read.unlock().unwrap();
            assert!(!can_read(&theirs) && !can_write(&ours));
            write.unlock().unwrap();
        }
        assert!(can_write(&theirs) && can_write(&ours));
        assert_eq!(keys(&server), [""; 0]);
    }
}

#[test]
fn waiting_readers_are_woken_when_a_writer_goes_on_reading() {
    let (_server, ours, theirs) = two_clients();
    let writing = ours
        .write()
        .acquire_with(Lease::fixed(SOON.get() * 6))
        .unwrap();
    let reading = ours.read().acquire().unwrap();
    thread::scope(|scope| {
        let waiting: Vec<_> = [&ours, &theirs]
            .map(ReadWriteLock::read)
            .into_iter()
            .map(|lock| scope.spawn(move || lock.acquire().unwrap().unlock().unwrap()))
            .collect();
        throughout(A_WHILE.get(), "they wait", || {
            waiting.iter().all(|reader| !reader.is_finished())
        });
        within(SOON.get(), "the wake-up", || {
            writing.unlock().unwrap();
            for reader in waiting {
                reader.join().unwrap();
            }
        });
    });
    reading.unlock().unwrap();
}

#[test]
fn an_upgrade_is_refused_at_once() {
    let (server, ours, _) = two_clients();
    let reading = ours.read().acquire().unwrap();
    let mut monitor = Monitor::of(&server);
    let is_refused = |error: Error| matches!(error, Error::Upgrade { lock } if lock == "lock");
    within(SLIP.get(), "the refusal", || {
        assert!(is_refused(ours.write().lock().unwrap_err()));
        let attempt = ours.write().try_lock(SOON.get(), Lease::RENEWED);
        assert!(is_refused(attempt.unwrap_err()));
    });
    assert_eq!(monitor.commands(), [""; 0]);
    assert!(matches!(ours.write().unlock(), Err(Error::NotHeld { .. })));
    reading.unlock().unwrap();
    ours.write().acquire().unwrap().unlock().unwrap();
}

#[test]
fn a_thread_unlocks_only_the_lock_that_it_holds() {
    let (_server, ours, theirs) = two_clients();
    let not_held = |result| matches!(result, Err(Error::NotHeld { .. }));
    ours.write().lock().unwrap();
    assert!(not_held(ours.read().unlock()) && not_held(theirs.write().unlock()));
    ours.write().unlock().unwrap();
    ours.read().lock().unwrap();
    assert!(not_held(ours.write().unlock()) && not_held(theirs.read().unlock()));
    assert!(not_held(on_another_thread(|| ours.read().unlock())));
    ours.read().unlock().unwrap();
}

/// Also in a thread that holds the other lock itself.
#[test]
fn another_kind_of_lock_with_the_name_is_refused_at_once() {
    let server = Server::start();
    let client = client(&server.url());
    let is_refused = |result: leasehold::Result<()>, found: &str| match result {
        Err(Error::WrongType { found: text, .. }) => assert!(text.contains(found), "{text}"),
        other => panic!("{other:?}"),
    };
    let plain = client.reentrant_lock("lock");
    let lock = client.read_write_lock("lock");
    for at in 0..2 {
        let guard = match at {
            0 => lock.read().acquire().unwrap(),
            _ => lock.write().acquire().unwrap(),
        };
        within(SLIP.get(), "the refusal", || {
            is_refused(plain.lock(), "a read-write lock");
        });
        guard.unlock().unwrap();
    }
    let guard = plain.acquire().unwrap();
    within(SLIP.get(), "the refusals", || {
        is_refused(lock.read().lock(), "a lock that is not a read-write lock");
        is_refused(lock.write().lock(), "a lock that is not a read-write lock");
        is_refused(
            lock.write().is_locked().map(drop),
            "a lock that is not a read-write lock",
        );
    });
    guard.unlock().unwrap();
}

#[test]
fn the_loss_of_the_write_lock_is_reported_by_a_downgrade() {
    let (server, ours, theirs) = two_clients();
    let writing = ours.write().acquire().unwrap();
    server.ask::<u32>(redis::cmd("DEL").arg("lock"));
    let reading = theirs.read().acquire().unwrap();
    assert!(matches!(ours.read().lock(), Err(Error::Lost { .. })));
    assert!(writing.check().is_err() && !ours.read().is_held_by_current_thread());
    drop(writing);
    ours.read().acquire().unwrap().unlock().unwrap();
    reading.unlock().unwrap();
}

#[test]
fn an_uncontended_pair_is_two_commands() {
    let (server, ours, _) = two_clients();
    for _ in 0..2 {
        // The first round loads the scripts.
        let mut monitor = Monitor::of(&server);
        ours.read().acquire().unwrap().unlock().unwrap();
        ours.write().acquire().unwrap().unlock().unwrap();
        monitor.commands();
    }
    let mut monitor = Monitor::of(&server);
    ours.read().acquire().unwrap().unlock().unwrap();
    ours.write().acquire().unwrap().unlock().unwrap();
    assert_eq!(monitor.commands(), ["EVALSHA"; 4]);
}

#[test]
fn a_read_lock_can_be_kept_in_redis_after_its_unlock() {
    let (server, ours, theirs) = two_clients();
    for is_write in [false, true] {
        let guard = if is_write {
            ours.write().acquire()
        } else {
            ours.read().acquire()
        };
        guard.unwrap().unlock_after(LEASE.get()).unwrap();
        assert!(can_read(&theirs) != is_write);
        assert!(!can_write(&theirs) && !can_write(&ours));
        eventually("its end", || can_write(&theirs));
        eventually("no key", || keys(&server).is_empty());
    }
}

/// What is left in Redis would exclude other readers, and this one is none of them.
#[test]
fn a_write_lock_is_not_kept_in_redis_while_its_thread_reads() {
    let (server, ours, theirs) = two_clients();
    let writing = ours.write().acquire().unwrap();
    let reading = ours.read().acquire().unwrap();
    let kept = writing.unlock_after(A_WHILE.get());
    assert!(
        matches!(kept, Err(Error::Config { field: "name", .. })),
        "{kept:?}"
    );
    assert!(!ours.write().is_held_by_current_thread());
    throughout(A_WHILE.get() * 2, "it reads", || {
        can_read(&theirs) && !can_write(&theirs)
    });
    reading.confirm().unwrap();
    reading.unlock().unwrap();
    assert_eq!(keys(&server), [""; 0]);
}

/// The order in which this cannot be refused: the last level of the writer is unlocked later.
#[test]
fn a_write_lock_that_is_kept_in_redis_does_not_shorten_the_lease_of_its_reader() {
    let (server, ours, theirs) = two_clients();
    let outer = ours.write().acquire().unwrap();
    let inner = ours.write().acquire().unwrap();
    inner.unlock_after(millis(1)).unwrap();
    let reading = ours.read().acquire().unwrap();
    outer.unlock().unwrap();
    throughout(A_WHILE.get(), "it reads", || {
        reading.confirm().unwrap();
        !can_write(&theirs)
    });
    reading.unlock().unwrap();
    within(LEASE.get() + SLIP.get(), "its end", || {
        theirs.write().acquire().unwrap().unlock().unwrap();
    });
    eventually("no key", || keys(&server).is_empty());
}

#[test]
fn inspect_and_force_unlock_know_read_write_locks() {
    let (server, ours, theirs) = two_clients();
    let operator = client(&server.url());
    let writing = ours.write().acquire().unwrap();
    let status = operator.inspect("lock").unwrap();
    let owner = status.owner.unwrap();
    assert!(owner.ends_with(":write"), "{owner}");
    assert_eq!((status.hold_count, status.readers), (1, 0));
    let reading = ours.read().acquire().unwrap();
    assert_eq!(operator.inspect("lock").unwrap().readers, 1);
    writing.unlock().unwrap();
    let too = theirs.read().acquire().unwrap();
    let status = operator.inspect("lock").unwrap();
    assert!(!status.owner.unwrap().ends_with(":write"));
    assert_eq!((status.hold_count, status.readers), (1, 2));
    assert!(status.time_to_live.unwrap() <= LEASE.get());

    let waiting = theirs.write();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiting.acquire().unwrap().unlock().unwrap());
        throughout(A_WHILE.get(), "it waits", || !waiting.is_finished());
        within(LEASE.get() + SLIP.get(), "the wake-up", || {
            assert!(operator.force_unlock("lock").unwrap());
            // The local threads wait for the loss of their reader.
            waiting.join().unwrap();
        });
    });
    for guard in [reading, too] {
        eventually("the loss", || guard.is_lost());
        assert!(guard.unlock().is_err());
    }
    assert!(!operator.force_unlock("lock").unwrap());
    assert_eq!(
        operator.inspect("lock").unwrap(),
        leasehold::LockStatus::default()
    );
}

/// A process that holds the lock `lock`, or waits for it.
fn hold_in_a_process(server: &Server, mode: &str) -> Process {
    Process::start("hold_read_write", &[&server.url(), mode])
}

/// The role: holds the lock until the process is killed.
pub fn hold(arguments: &[&str]) {
    let lock = client(arguments[0]).read_write_lock("lock");
    let _guard = match arguments[1] {
        "read" => lock.read().acquire().unwrap(),
        _ => lock.write().acquire().unwrap(),
    };
    child::send_line("held");
    child::read_line();
}
