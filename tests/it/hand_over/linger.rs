//! A client that keeps an unlocked lock for a while, because it may need it again.

use crate::support::prelude::*;

/// At most a third of a lease.
const LINGER: Millis = Millis(300);

fn lingering(server: &Server) -> LockClientBuilder {
    builder(&server.url()).linger(LINGER.get())
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

#[test]
fn a_dropped_client_releases_its_locks_at_once_however_many() {
    let server = Server::start();
    for locks in [2, 2_500] {
        let long = builder(&server.url()).command_timeout(SOON.get());
        let long = long.watchdog_lease(SOON.get() * 18).linger(SOON.get() * 6);
        let client = long.build().unwrap();
        for number in 0..locks {
            pair(&client.reentrant_lock(&format!("lock:{number}")));
        }
        assert_eq!(server.size(), locks);
        drop(client);
        assert_eq!(server.size(), 0);
    }
}
