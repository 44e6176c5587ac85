//! The read-write lock.

mod dead_readers;
mod layout;
mod sharing;
mod starvation;
mod turns;

use crate::line;
use crate::support::prelude::*;

/// A server, and the lock `lock` of two clients.
fn two_clients() -> (Server, ReadWriteLock, ReadWriteLock) {
    let server = Server::start();
    let lock = || client(&server.url()).read_write_lock("lock");
    let (ours, theirs) = (lock(), lock());
    (server, ours, theirs)
}

/// All keys in Redis, which end by themselves.
fn keys(server: &Server) -> Vec<String> {
    let mut keys = server.keys();
    keys.retain(|key| {
        let left = server.time_to_live(key);
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
    on_another_thread(|| is_free(&lock.read()))
}

fn can_write(lock: &ReadWriteLock) -> bool {
    on_another_thread(|| is_free(&lock.write()))
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
fn an_upgrade_is_refused_at_once() {
    let (server, ours, _) = two_clients();
    let reading = ours.read().acquire().unwrap();
    let mut monitor = Monitor::of(&server);
    within(SLIP.get(), "the refusal", || {
        assert_matches!(ours.write().lock(), Err(Error::Upgrade { lock }) if lock == "lock");
        let attempt = ours.write().try_acquire(SOON.get(), long());
        assert_matches!(attempt, Err(Error::Upgrade { lock }) if lock == "lock");
    });
    assert_eq!(monitor.commands(), [""; 0]);
    reading.unlock().unwrap();
    pair(&ours.write());
}

/// Also in a thread that holds the other lock itself. `wire::other_kinds` has the other direction.
#[test]
fn another_kind_of_lock_with_the_name_is_refused_at_once() {
    let (server, ours, _) = two_clients();
    let guard = client(&server.url())
        .reentrant_lock("lock")
        .acquire()
        .unwrap();
    let (read, write) = (ours.read(), ours.write());
    within(SLIP.get(), "the refusals", || {
        for result in [read.lock(), write.lock(), write.is_locked().map(drop)] {
            assert_error!(result, WrongType);
            let text = result.unwrap_err().to_string();
            assert!(
                text.contains("a lock that is not a read-write lock"),
                "{text}"
            );
        }
    });
    guard.unlock().unwrap();
}

/// What is left in Redis would exclude other readers, and this one is none of them.
#[test]
fn a_write_lock_is_not_kept_in_redis_while_its_thread_reads() {
    let (server, ours, theirs) = two_clients();
    let writing = ours.write().acquire().unwrap();
    let reading = ours.read().acquire().unwrap();
    let kept = writing.unlock_after(A_WHILE.get());
    assert_matches!(
        kept,
        Err(Error::InvalidArgument {
            argument: "name",
            ..
        })
    );
    assert!(!ours.write().is_held_by_current_thread());
    throughout(A_WHILE.get() * 2, "it reads", || {
        can_read(&theirs) && !can_write(&theirs)
    });
    reading.confirm().unwrap();
    reading.unlock().unwrap();
    assert_eq!(keys(&server), [""; 0]);
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
    assert!(status.remaining.unwrap() <= LEASE.get());
    assert!(operator.force_unlock("lock").unwrap());
    for guard in [reading, too] {
        eventually("the loss", || guard.is_lost());
        assert!(guard.unlock().is_err());
    }
    assert!(!operator.force_unlock("lock").unwrap());
}
