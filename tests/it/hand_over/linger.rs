//! A client that keeps an unlocked lock for a while, because it may need it again.

use super::keep_busy_during;
use crate::support::prelude::*;

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
        pair(lock);
        let mut monitor = Monitor::of(&server);
        for _ in 0..100 {
            pair(lock);
            on_another_thread(|| lock.acquire().unwrap().unlock()).unwrap();
        }
        assert_eq!(monitor.commands(), [""; 0]);
        assert_eq!(lock.hold_count(), 0);
        assert_matches!(lock.unlock(), Err(Error::NotHeld { .. }));
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
    pair(&lock);
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
fn a_dropped_client_releases_its_locks_at_once() {
    let server = Server::start();
    let long = builder(&server.url())
        .watchdog_lease(SOON.get() * 6)
        .linger(SOON.get());
    let client = long.build().unwrap();
    for name in ["lock", "another"] {
        pair(&client.reentrant_lock(name));
    }
    assert_eq!(server.size(), 2);
    drop(client);
    assert_eq!(server.size(), 0);
}
