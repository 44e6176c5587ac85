//! Writers are not starved by readers, nor readers by writers.

use super::{can_read, can_write, two_clients};
use crate::support::prelude::*;

/// How long a thread of [`busy_during`] holds the lock.
const HOLD: Duration = Duration::from_millis(20);

/// Threads use each of these locks all the time while `work` runs, so that some always do.
fn busy_during<T>(locks: Vec<Box<dyn Lock>>, hold: Duration, work: impl FnOnce() -> T) -> T {
    const THREADS: usize = 4;
    let (is_over, holds) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        for lock in &locks {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let guard = lock.acquire().unwrap();
                        holds.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(hold);
                        guard.unlock().unwrap();
                    }
                });
            }
        }
        let _stop = Stop(&is_over);
        eventually("all to begin", || holds.load(Ordering::Relaxed) > 30);
        work()
    })
}

/// The longest of some waits for the lock, with a pause after each.
fn longest_wait(lock: &dyn Lock, pause: Duration) -> Duration {
    let waits = (0..10).map(|_| {
        let start = Instant::now();
        let taken = lock.try_lock(SOON.get(), Lease::RENEWED).unwrap();
        assert!(taken, "starved");
        let waited = start.elapsed();
        lock.unlock().unwrap();
        thread::sleep(pause);
        waited
    });
    let waits: Vec<Duration> = waits.collect();
    println!("{waits:?}");
    waits.into_iter().max().unwrap()
}

fn readers(locks: &[&ReadWriteLock]) -> Vec<Box<dyn Lock>> {
    let read = |lock: &&ReadWriteLock| -> Box<dyn Lock> { Box::new(lock.read()) };
    locks.iter().map(read).collect()
}

/// A writer waits until the readers have unlocked that were there when it came, and for readers of
/// other clients that joined them within the next 50 ms.
#[test]
fn a_writer_is_not_starved_by_readers() {
    let (server, ours, theirs) = two_clients();
    let third = client(&server.url()).read_write_lock("lock");
    for (busy, writer, others) in [
        (readers(&[&ours]), &ours, millis(0)),
        (readers(&[&ours, &theirs]), &third, millis(50)),
    ] {
        let longest = busy_during(busy, HOLD, || longest_wait(&writer.write(), HOLD * 3));
        assert!(longest < others + HOLD + SLIP.get(), "{longest:?}");
    }
}

/// While two clients write all the time.
#[test]
fn a_reader_is_not_starved_by_writers() {
    let (server, ours, theirs) = two_clients();
    let reader = client(&server.url()).read_write_lock("lock").read();
    let writers: Vec<Box<dyn Lock>> = vec![Box::new(ours.write()), Box::new(theirs.write())];
    let longest = busy_during(writers, HOLD / 4, || longest_wait(&reader, Duration::ZERO));
    assert!(longest < HOLD + SLIP.get(), "{longest:?}");
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
