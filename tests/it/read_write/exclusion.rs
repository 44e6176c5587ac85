//! No reader beside a writer, whatever the threads do.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::{Error, Interrupt, Lease, LockGuard, ReadWriteLock, Result};

use super::keys;
use crate::support::server::Server;
use crate::support::timing::{SOON, eventually, millis};
use crate::support::{Stop, assert_matches, builder};

/// What the lock protects: the number of readers, or -1 with a writer.
#[derive(Default)]
struct Protected {
    users: AtomicI64,
    reads: AtomicU64,
    writes: AtomicU64,
    downgrades: AtomicU64,
    given_up: AtomicU64,
}

impl Protected {
    fn read(&self) {
        assert!(
            self.users.fetch_add(1, Ordering::SeqCst) >= 0,
            "a writer is there"
        );
        pause();
        assert!(self.users.fetch_sub(1, Ordering::SeqCst) > 0);
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    fn write(&self) {
        let before = self.users.swap(-1_000_000, Ordering::SeqCst);
        assert_eq!(before, 0, "others are there");
        pause();
        assert_eq!(self.users.swap(0, Ordering::SeqCst), -1_000_000);
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}

fn pause() {
    match fastrand::u32(..4) {
        0 => thread::sleep(Duration::from_micros(fastrand::u64(..300))),
        1 => thread::yield_now(),
        _ => {}
    }
}

fn briefly() -> Duration {
    Duration::from_micros(fastrand::u64(..3_000))
}

/// One random use of the lock.
fn use_once(lock: &ReadWriteLock, protected: &Protected) -> Result<()> {
    let (read, write) = (lock.read(), lock.write());
    let end = |guard: Option<LockGuard>, work: &dyn Fn()| match guard {
        Some(guard) => {
            work();
            guard.unlock()
        }
        None => {
            protected.given_up.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    };
    let (reads, writes) = (|| protected.read(), || protected.write());
    match fastrand::u32(..10) {
        0..4 => {
            let guard = read.acquire()?;
            protected.read();
            if fastrand::bool() {
                let nested = read.acquire()?;
                protected.read();
                assert_eq!(read.hold_count(), 2);
                guard.unlock()?;
                return nested.unlock();
            }
            guard.unlock()
        }
        4 => end(read.try_acquire(briefly(), Lease::RENEWED)?, &reads),
        5 => end(
            read.try_acquire(briefly(), Lease::fixed(SOON.get()))?,
            &reads,
        ),
        6 => end(write.try_acquire(briefly(), Lease::RENEWED)?, &writes),
        7 => {
            let writing = write.acquire()?;
            protected.write();
            let reading = read.acquire()?;
            if fastrand::bool() {
                writing.unlock()?;
                protected.read();
                assert_matches!(write.lock(), Err(Error::Upgrade { .. }));
                reading.unlock()?;
            } else {
                reading.unlock()?;
                protected.write();
                writing.unlock()?;
            }
            protected.downgrades.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        8 => {
            let interrupt = Interrupt::new();
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(briefly());
                    interrupt.interrupt();
                });
                match read.acquire_interruptibly(Lease::RENEWED, &interrupt) {
                    Err(Error::Interrupted { .. }) => end(None, &reads),
                    guard => end(Some(guard?), &reads),
                }
            })
        }
        _ => end(Some(write.acquire()?), &writes),
    }
}

/// All but one of the clients linger.
#[test]
fn threads_of_several_clients_exclude_each_other() {
    const CLIENTS: u64 = 3;
    const THREADS: usize = 4;
    let server = Server::start();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|at| {
            let builder = builder(&server.url()).watchdog_lease(SOON.get() * 6);
            builder.linger(millis(3 * at)).build().unwrap()
        })
        .collect();
    let (protected, is_over) = (Protected::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        for client in &clients {
            let lock = client.read_write_lock("lock");
            for _ in 0..THREADS {
                let (lock, protected, is_over) = (lock.clone(), &protected, &is_over);
                scope.spawn(move || {
                    let _stop = Stop(is_over);
                    while !is_over.load(Ordering::Relaxed) {
                        use_once(&lock, protected).unwrap();
                        assert_eq!(
                            (lock.read().hold_count(), lock.write().hold_count()),
                            (0, 0)
                        );
                    }
                });
            }
        }
        let _stop = Stop(&is_over);
        thread::sleep(millis(2_000));
    });
    let Protected {
        reads,
        writes,
        downgrades,
        given_up,
        ..
    } = &protected;
    println!(
        "{reads:?} reads, {writes:?} writes, {downgrades:?} downgrades, {given_up:?} given up"
    );
    for number in [reads, writes, downgrades, given_up] {
        assert!(number.load(Ordering::Relaxed) > 10);
    }
    assert!(clients.iter().all(|client| client.stats().lost == 0));
    for client in &clients {
        let lock = client.read_write_lock("lock");
        assert!(
            lock.write().try_lock(SOON.get(), Lease::RENEWED).unwrap(),
            "stuck"
        );
        lock.write().unlock().unwrap();
    }
    drop(clients);
    eventually("no key", || keys(&server).is_empty());
}
