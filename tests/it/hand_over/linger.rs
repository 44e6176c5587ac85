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

/// A fixed lease has to end in Redis on time, so it is acquired there.
#[test]
fn a_thread_that_the_idle_lock_does_not_suit_counts_its_release() {
    let server = Server::start();
    let long = builder(&server.url()).watchdog_lease(SOON.get() * 6);
    let client = long.linger(SOON.get()).build().unwrap();
    let lock = client.reentrant_lock("lock");
    pair(&lock);
    assert_eq!(client.stats().releases, 0);
    let guard = lock.acquire_with(Lease::fixed(SOON.get())).unwrap();
    assert_eq!(client.stats().releases, 1);
    guard.unlock().unwrap();
    let stats = client.stats();
    assert_eq!((stats.acquisitions, stats.releases), (2, 2));
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

/// The watchdog has a connection from an earlier release. Its end is noticed by the next request.
#[test]
fn a_dropped_client_releases_its_locks_although_its_connections_were_cut() {
    let server = Server::start();
    let long = lingering(&server).watchdog_lease(SOON.get() * 6);
    let client = long.command_timeout(SOON.get()).build().unwrap();
    let lock = client.reentrant_lock("lock");
    pair(&lock);
    eventually("the release", || !is_there(&server));
    pair(&lock);
    server.cut("normal");
    drop((client, lock));
    assert!(!is_there(&server), "long before its lease ends");
}

/// The release of the watchdog is slow, or the request of the thread overtakes it.
#[test]
fn a_call_that_does_not_wait_gets_a_lock_that_its_own_client_releases() {
    type Make = fn(&[LockClient], &str) -> Box<dyn Lock>;
    let kinds: [(&str, usize, Make); 4] = [
        ("release", 1, |clients, name| {
            Box::new(clients[0].reentrant_lock(name))
        }),
        ("read_write_release", 1, |clients, name| {
            Box::new(clients[0].read_write_lock(name).write())
        }),
        ("fair_release", 1, |clients, name| {
            Box::new(clients[0].fair_lock(name))
        }),
        ("release", 3, |clients, name| {
            Box::new(RedLock::new(clients, name))
        }),
    ];
    let on = |(script, servers, make): (&'static str, usize, Make)| {
        let servers: Vec<_> = (0..servers).map(|_| ProxiedServer::new()).collect();
        let lingering = |server: &ProxiedServer| {
            let builder = server.builder(SOON.get()).linger(LINGER.get());
            builder.build().unwrap()
        };
        let clients: Vec<_> = servers.iter().map(lingering).collect();
        let lock = make(&clients, "lock");
        pair(&*lock);
        let hold_back = |server: &ProxiedServer| server.hold_back_once(script);
        let gates: Vec<Gate> = servers.iter().map(hold_back).collect();
        eventually("the releases", || gates.iter().all(|gate| gate.held() == 1));
        let requests = || servers[0].proxy.requests();
        let before = requests();
        thread::scope(|scope| {
            let calling = scope.spawn(|| is_free(&*lock));
            eventually("two requests", || {
                calling.is_finished() || requests() >= before + 2
            });
            gates.iter().for_each(Gate::open);
            assert!(
                calling.join().unwrap(),
                "no other client is there: {script}"
            );
        });
    };
    thread::scope(|scope| {
        for kind in kinds {
            scope.spawn(move || on(kind));
        }
    });
}
