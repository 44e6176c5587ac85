//! A client that keeps an unlocked lock for a while, because it may need it again.

use std::time::{Duration, Instant};

use leasehold::{Error, Lease, Lock, LockClient, LockClientBuilder};

use super::{keep_busy_during, waits_for};
use crate::support::child::{self, Process};
use crate::support::server::Server;
use crate::support::timing::{LEASE, Millis, SLIP, SOON, eventually, eventually_some, within};
use crate::support::traffic::Monitor;
use crate::support::{builder, client, on_another_thread};

/// At most a third of a lease.
const LINGER: Millis = Millis(300);

/// In addition, a grant is kept for as long as it may be handed over.
const SLICE: Duration = Duration::from_millis(10);

/// Much shorter than the time to linger.
const INSIDE: Duration = Duration::from_micros(200);

fn lingering(server: &Server) -> LockClientBuilder {
    builder(&server.url()).linger(LINGER.get())
}

/// The lease is so long that nothing but the time to linger ends the use of a grant.
fn lingering_with_long_lease(server: &Server) -> LockClient {
    let long = lingering(server).watchdog_lease(SOON.get() * 6);
    long.build().unwrap()
}

fn is_there(server: &Server) -> bool {
    server.ask(redis::cmd("EXISTS").arg("lock"))
}

/// The role: a process that has released a lock, and lives on.
pub fn linger(arguments: &[&str]) {
    let client = builder(arguments[0]).linger(LINGER.get()).build().unwrap();
    client
        .reentrant_lock("lock")
        .acquire()
        .unwrap()
        .unlock()
        .unwrap();
    child::send_line("released");
    child::read_line();
}

#[test]
fn the_second_lock_sends_no_command() {
    let server = Server::start();
    let long = builder(&server.url())
        .watchdog_lease(SOON.get() * 6)
        .linger(SOON.get());
    let client = long.build().unwrap();
    let plain = client.reentrant_lock("lock");
    let several = client.multi_lock(["a", "b"]);
    for lock in [&plain as &dyn Lock, &several] {
        lock.acquire().unwrap().unlock().unwrap();
        let mut monitor = Monitor::of(&server);
        for _ in 0..100 {
            lock.acquire().unwrap().unlock().unwrap();
            on_another_thread(|| lock.acquire().unwrap().unlock()).unwrap();
        }
        assert_eq!(monitor.commands(), [""; 0]);
        assert_eq!(lock.hold_count(), 0);
        assert!(matches!(lock.unlock(), Err(Error::NotHeld { .. })));
        assert!(lock.is_locked().unwrap(), "for other clients");
    }
    let counted = client.stats();
    assert_eq!((counted.acquisitions, counted.releases), (3, 0));
}

#[test]
fn the_lock_is_released_after_the_time() {
    let server = Server::start();
    let client = lingering(&server).build().unwrap();
    let lock = client.reentrant_lock("lock");
    let start = Instant::now();
    lock.acquire().unwrap().unlock().unwrap();
    let released = Instant::now();
    eventually("the release", || !is_there(&server));
    let (least, most) = (released.elapsed(), start.elapsed());
    assert!(most >= LINGER.get(), "already after {most:?}");
    assert!(least <= LINGER.get() + SLIP.get(), "{least:?}");
}

/// However fast the machine is, and whichever client gets the lock then.
#[test]
fn a_lock_that_is_used_all_the_time_is_released_after_the_time() {
    let server = Server::start();
    let busy = lingering_with_long_lease(&server);
    let owner = || busy.inspect("lock").unwrap().owner;
    let grants = keep_busy_during(&busy, 1, INSIDE, || {
        let grant = |_| {
            let first = eventually_some("a grant", owner);
            let start = Instant::now();
            eventually("the next", || owner().as_ref() != Some(&first));
            start.elapsed()
        };
        let mut grants: Vec<Duration> = (0..5).map(grant).collect();
        grants.sort_unstable();
        grants
    });
    // A stalled machine may delay some of them.
    assert!(grants[2] <= LINGER.get() + SLICE + SLIP.get(), "{grants:?}");
}

#[test]
fn another_client_gets_a_lock_that_is_used_all_the_time() {
    let server = Server::start();
    let busy = lingering_with_long_lease(&server);
    let lock = client(&server.url()).reentrant_lock("lock");
    keep_busy_during(&busy, 1, INSIDE, || {
        let held = || eventually("it to be held", || is_there(&server));
        waits_for(&lock, 3, held);
    });
}

#[test]
fn a_waiting_client_gets_an_unused_lock_after_the_time() {
    let server = Server::start();
    let lingers = lingering(&server).build().unwrap();
    let other = client(&server.url()).reentrant_lock("lock");
    lingers
        .reentrant_lock("lock")
        .acquire()
        .unwrap()
        .unlock()
        .unwrap();
    assert!(!other.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    let bound = LINGER.get() + SLICE + SLIP.get();
    within(bound, "the wait of another client", || {
        other.lock().unwrap();
    });
    other.unlock().unwrap();
}

#[test]
fn a_dropped_client_releases_its_locks_at_once() {
    let server = Server::start();
    let long = builder(&server.url())
        .watchdog_lease(SOON.get() * 6)
        .linger(SOON.get());
    let client = long.build().unwrap();
    for name in ["lock", "another"] {
        client
            .reentrant_lock(name)
            .acquire()
            .unwrap()
            .unlock()
            .unwrap();
    }
    assert_eq!(server.ask::<u32>(&redis::cmd("DBSIZE")), 2);
    drop(client);
    assert_eq!(server.ask::<u32>(&redis::cmd("DBSIZE")), 0);
}

#[test]
fn a_killed_process_frees_its_locks_within_a_lease() {
    let server = Server::start();
    let mut process = Process::start("linger", &[&server.url()]);
    assert_eq!(process.read_line(), "released");
    process.kill();
    let lock = client(&server.url()).reentrant_lock("lock");
    within(LEASE.get() + SLIP.get(), "the end of the lease", || {
        lock.lock().unwrap();
    });
    lock.unlock().unwrap();
}

#[test]
fn a_lingering_lock_that_is_lost_is_acquired_again() {
    let server = Server::start();
    let lingers = lingering(&server).build().unwrap();
    let lock = lingers.reentrant_lock("lock");
    lock.acquire().unwrap().unlock().unwrap();
    assert!(lingers.force_unlock("lock").unwrap());
    let other = client(&server.url()).reentrant_lock("lock");
    other.lock().unwrap();
    let guard = lock.try_acquire(LINGER.get() / 2, Lease::RENEWED);
    assert!(guard.unwrap().is_none(), "another client holds it");
    other.unlock().unwrap();
    lock.acquire().unwrap().unlock().unwrap();
}
