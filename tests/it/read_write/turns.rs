//! A turn of readers lasts as long as there are readers that have waited.

use std::thread;

use leasehold::{Lease, ReadWriteLock};

use super::starvation::{WAITS, waiting_readers};
use super::{can_read, can_write, two_clients};
use crate::support::client;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, SLIP, SOON, eventually, millis, within};

/// Writes until another client's reader waits, and runs `read` in a thread of that reader.
fn write_before(server: &Server, lock: &ReadWriteLock, read: impl FnOnce() + Send) {
    let writing = lock.write().acquire().unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(read);
        eventually("the reader to wait", || waiting_readers(server) == 1);
        writing.unlock().unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn a_writer_gets_the_lock_at_once_after_the_readers_that_have_waited() {
    let (server, ours, theirs) = two_clients();
    for _ in 0..10 {
        write_before(&server, &ours, || {
            theirs.read().acquire().unwrap().unlock().unwrap();
        });
        assert!(can_write(&ours) && can_write(&theirs));
    }
}

/// It waited for a writer that holds the lock, or for one that waits.
#[test]
fn a_reader_that_gives_up_leaves_no_turn() {
    let (server, ours, theirs) = two_clients();
    let third = client(&server.url()).read_write_lock("lock");
    let try_to_read = || {
        !third
            .read()
            .try_lock(A_WHILE.get(), Lease::RENEWED)
            .unwrap()
    };
    for _ in 0..3 {
        let writing = ours.write().acquire().unwrap();
        assert!(try_to_read());
        writing.unlock().unwrap();
        assert!(can_write(&theirs) && can_write(&ours));
    }
    let reading = ours.read().acquire().unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| theirs.write().acquire().unwrap().unlock().unwrap());
        eventually("readers to be kept out", || !can_read(&third));
        assert!(try_to_read());
        reading.unlock().unwrap();
        writer.join().unwrap();
    });
    assert!(can_write(&ours));
}

/// Its note ends although no writer has released the lock meanwhile.
#[test]
fn a_reader_that_waited_for_a_writer_that_gave_up_leaves_no_note() {
    let (server, ours, theirs) = two_clients();
    let third = client(&server.url()).read_write_lock("lock");
    let reading = ours.read().acquire().unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| theirs.write().try_lock(A_WHILE.get() * 2, Lease::RENEWED));
        eventually("readers to be kept out", || !can_read(&third));
        third.read().acquire().unwrap().unlock().unwrap();
        assert!(!writer.join().unwrap().unwrap());
    });
    assert_eq!(waiting_readers(&server), 0);
    reading.unlock().unwrap();
    assert!(can_write(&ours) && can_write(&theirs));
}

/// The turn lasts until all of them have come, however short the holds of the first ones are.
#[test]
fn all_readers_that_have_waited_come_before_the_next_writer() {
    let (server, ours, theirs) = two_clients();
    // A client that is slow: it has noted that it waits.
    note_as_a_dead_client(&server);
    let writing = ours.write().acquire().unwrap();
    writing.unlock().unwrap();
    for _ in 0..3 {
        assert!(!can_write(&ours) && can_read(&theirs));
    }
    server.ask::<()>(redis::cmd("HDEL").arg(WAITS).arg("turn"));
    assert!(can_write(&ours));
}

fn note_as_a_dead_client(server: &Server) {
    let mut note = redis::pipe();
    note.cmd("HSET").arg(WAITS).arg("dead").arg("dead:1");
    note.cmd("PEXPIRE").arg(WAITS).arg(60_000);
    note.query::<()>(&mut server.connection()).unwrap();
}

#[test]
fn readers_that_do_not_come_delay_writers_once() {
    let (server, ours, theirs) = two_clients();
    note_as_a_dead_client(&server);
    ours.write().acquire().unwrap().unlock().unwrap();
    assert!(!can_write(&theirs));
    let write = || {
        let wait = SOON.get();
        assert!(theirs.write().try_lock(wait, Lease::RENEWED).unwrap());
        theirs.write().unlock().unwrap();
    };
    within(millis(100) + SLIP.get(), "the turn", write);
    for _ in 0..3 {
        assert!(can_write(&ours) && can_write(&theirs));
    }
    assert_eq!(waiting_readers(&server), 0);
}
