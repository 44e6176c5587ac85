//! Writers are not starved by readers, nor readers by writers.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Lease, Lock, ReadWriteLock};

use super::{can_read, can_write, hold_in_a_process, two_clients, waiting};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SLIP, SOON, eventually, millis, throughout, within};
use crate::support::{Stop, client};

/// How long a reader of [`read_during`] holds the lock.
const HOLD: Duration = Duration::from_millis(20);

/// Threads of each of these clients read all the time while `work` runs, so that some always do.
fn read_during<T>(locks: &[&ReadWriteLock], work: impl FnOnce() -> T) -> T {
    const THREADS: usize = 4;
    let (is_over, reads) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        for lock in locks {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let read = lock.read();
                    while !is_over.load(Ordering::Relaxed) {
                        let guard = read.acquire().unwrap();
                        reads.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(HOLD);
                        guard.unlock().unwrap();
                    }
                });
            }
        }
        let _stop = Stop(&is_over);
        eventually("all to read", || reads.load(Ordering::Relaxed) > 30);
        work()
    })
}

/// The longest of some waits for the lock, with a pause after each.
fn longest_wait(lock: &impl Lock, pause: Duration) -> Duration {
    let waits = (0..10).map(|_| {
        let start = Instant::now();
        assert!(
            lock.try_lock(SOON.get(), Lease::RENEWED).unwrap(),
            "starved"
        );
        let waited = start.elapsed();
        lock.unlock().unwrap();
        thread::sleep(pause);
        waited
    });
    let waits: Vec<Duration> = waits.collect();
    println!("{waits:?}");
    waits.into_iter().max().unwrap()
}

#[test]
fn a_writer_is_not_starved_by_readers_of_its_client() {
    let (_server, ours, _) = two_clients();
    let longest = read_during(&[&ours], || longest_wait(&ours.write(), HOLD * 3));
    assert!(longest < HOLD + SLIP.get(), "{longest:?}");
}

/// It waits until the readers have unlocked that were there when it came, and for those that joined
/// them within the next 50 ms.
#[test]
fn a_writer_is_not_starved_by_readers_of_other_clients() {
    let (server, ours, theirs) = two_clients();
    let writer = client(&server.url()).read_write_lock("lock").write();
    let longest = read_during(&[&ours, &theirs], || longest_wait(&writer, HOLD * 3));
    let bound = millis(50) + HOLD + SLIP.get();
    assert!(longest < bound, "{longest:?}");
}

/// While two clients write all the time.
#[test]
fn a_reader_is_not_starved_by_writers() {
    let (server, ours, theirs) = two_clients();
    let reader = client(&server.url()).read_write_lock("lock").read();
    let is_over = AtomicBool::new(false);
    let writes = AtomicU32::new(0);
    let longest = thread::scope(|scope| {
        for lock in [&ours, &theirs] {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let guard = lock.write().acquire().unwrap();
                        writes.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(HOLD / 4);
                        guard.unlock().unwrap();
                    }
                });
            }
        }
        let _stop = Stop(&is_over);
        eventually("all to write", || writes.load(Ordering::Relaxed) > 30);
        longest_wait(&reader, Duration::ZERO)
    });
    println!("{writes:?} writes");
    assert!(longest < HOLD + SLIP.get(), "{longest:?}");
}

/// Its client gives up: the readers that wait behind it go on at once.
#[test]
fn a_writer_that_gives_up_lets_readers_in() {
    let (server, ours, theirs) = two_clients();
    let reading = ours
        .read()
        .acquire_with(Lease::fixed(SOON.get() * 6))
        .unwrap();
    let third = client(&server.url()).read_write_lock("lock");
    let write = theirs.write();
    thread::scope(|scope| {
        let writer = scope.spawn(|| write.try_lock(A_WHILE.get() * 2, Lease::RENEWED).unwrap());
        eventually("readers to be kept out", || !can_read(&third));
        let reader = scope.spawn(|| third.read().acquire().unwrap().unlock().unwrap());
        throughout(A_WHILE.get() / 2, "it waits", || !reader.is_finished());
        assert!(!writer.join().unwrap());
        within(SLIP.get(), "the wake-up", || reader.join().unwrap());
    });
    assert!(can_read(&theirs));
    reading.unlock().unwrap();
    assert!(can_write(&ours));
}

/// Its client has released the lock while clients of Redisson listened, so it waits without a
/// prepared request.
#[test]
fn a_writer_that_gives_up_soon_after_its_release_lets_readers_in() {
    let (server, ours, theirs) = two_clients();
    let mut redis = [(); 2].map(|()| server.connection());
    let _listening = redis.each_mut().map(|connection| {
        let mut listening = connection.as_pubsub();
        listening.subscribe("redisson_rwlock:{lock}").unwrap();
        listening
    });
    ours.write().acquire().unwrap().unlock().unwrap();
    let reading = theirs.read().acquire().unwrap();
    let third = client(&server.url()).read_write_lock("lock");
    thread::scope(|scope| {
        let write = ours.write();
        let writer = scope.spawn(move || write.try_lock(A_WHILE.get(), Lease::RENEWED));
        eventually("it to wait", || waiting(&server) == 1);
        let reader = scope.spawn(|| third.read().acquire().unwrap().unlock().unwrap());
        assert!(!writer.join().unwrap().unwrap());
        within(SLIP.get(), "the wake-up", || reader.join().unwrap());
    });
    assert_eq!(waiting(&server), 0);
    reading.unlock().unwrap();
}

/// Another writer of its client waits, and goes on to keep readers out.
#[test]
fn a_writer_that_gives_up_leaves_its_place_to_the_next_writer() {
    let (server, ours, theirs) = two_clients();
    let reading = ours
        .read()
        .acquire_with(Lease::fixed(SOON.get() * 6))
        .unwrap();
    let third = client(&server.url()).read_write_lock("lock");
    thread::scope(|scope| {
        let next = scope.spawn(|| {
            let first = theirs.write();
            scope.spawn(move || assert!(!first.try_lock(A_WHILE.get(), Lease::RENEWED).unwrap()));
            eventually("the first to wait", || !can_read(&third));
            theirs.write().acquire().unwrap().unlock().unwrap();
        });
        eventually("the first to wait", || !can_read(&third));
        // The first leaves the line, and the next one enters it.
        thread::sleep(A_WHILE.get() * 2);
        throughout(A_WHILE.get(), "no reader", || !can_read(&third));
        reading.unlock().unwrap();
        next.join().unwrap();
    });
    assert!(can_read(&third));
}

/// A writer that does not wait keeps no reader out.
#[test]
fn an_attempt_to_write_without_a_wait_keeps_no_reader_out() {
    let (_server, ours, theirs) = two_clients();
    let reading = ours.read().acquire().unwrap();
    for _ in 0..10 {
        assert!(!can_write(&theirs) && can_read(&theirs) && can_read(&ours));
    }
    reading.unlock().unwrap();
}

/// The readers of other clients do not wait for the end of the first reader.
#[test]
fn a_waiting_writer_whose_process_dies_is_forgotten() {
    let server = Server::start();
    let lock = client(&server.url()).read_write_lock("lock");
    let reading = lock.read().acquire().unwrap();
    let mut writer = hold_in_a_process(&server, "wait");
    let other = client(&server.url()).read_write_lock("lock");
    eventually("readers to be kept out", || !can_read(&other));
    writer.kill();
    eventually("readers to be let in", || can_read(&other));
    reading.unlock().unwrap();
}

/// What a process held is free when its lease is over.
#[test]
fn a_process_that_dies_frees_its_locks_within_a_lease() {
    let server = Server::start();
    let lock = client(&server.url()).read_write_lock("lock");
    for mode in ["read", "write"] {
        let mut process = hold_in_a_process(&server, mode);
        assert_eq!(process.read_line(), "held");
        assert!(!can_write(&lock));
        process.kill();
        within(LEASE.get() + SLIP.get() * 2, "the end of the lease", || {
            lock.write().acquire().unwrap().unlock().unwrap();
        });
        // Beside another reader, whose lease goes on.
        let mut process = hold_in_a_process(&server, mode);
        assert_eq!(process.read_line(), "held");
        process.kill();
        let reading = lock.read().acquire().unwrap();
        thread::sleep(LEASE.get() * 2);
        reading.unlock().unwrap();
        assert!(can_write(&lock));
    }
}
