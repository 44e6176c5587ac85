//! `min_replicas`: a lock is granted when enough replicas confirm it, and released otherwise.

use crate::support::prelude::*;

mod lost_replies;

/// The command timeout.
const TIMEOUT: u64 = 600;

/// The timeout for the replicas.
const REPLICATION: u64 = 200;

/// Longer than any test: what is not released stays.
const LEASE: u64 = 60_000;

fn requiring(replicas: u32, url: &str) -> LockClientBuilder {
    let builder = builder(url).watchdog_lease(millis(LEASE));
    let builder = builder.command_timeout(millis(TIMEOUT));
    builder.min_replicas(replicas, millis(REPLICATION))
}

fn has(server: &Server, key: &str) -> bool {
    server.ask(redis::cmd("EXISTS").arg(key))
}

/// The number of replicas that confirmed, according to the error, whose text is checked.
#[track_caller]
fn confirmed<T: std::fmt::Debug>(result: leasehold::Result<T>, of: u32, master: &Server) -> u32 {
    let error = result.expect_err("too few confirm it");
    let text = error.to_string();
    let Error::TooFewReplicas {
        lock,
        node,
        wanted,
        confirmed,
    } = error
    else {
        panic!("{error:?}")
    };
    assert_eq!((lock.as_str(), wanted), ("lock", of));
    assert_eq!(node, master.address());
    for part in [lock, node, format!("{confirmed} of {wanted}")] {
        assert!(text.contains(&part), "{text}");
    }
    confirmed
}

/// An acquire is a script and a confirmation, a release is a script, and a nested pair is nothing.
#[test]
fn a_lock_that_is_granted_is_on_the_replica() {
    let deployment = Replicated::start(1);
    let client = requiring(1, &deployment.url()).min_replicas(1, SOON.get());
    let client = client.command_timeout(SOON.get()).build().unwrap();
    let lock = client.reentrant_lock("lock");
    pair(&lock);
    let mut monitor = Monitor::of(deployment.master());
    for round in 0..20 {
        let guard = lock.acquire().unwrap();
        assert!(has(deployment.replica(0), "lock"), "{round}");
        assert_eq!(monitor.commands(), ["EVALSHA", "EVALSHA", "WAIT"]);
        pair(&lock);
        guard.unlock().unwrap();
        assert_eq!(monitor.commands(), ["EVALSHA"]);
    }
    assert_eq!(client.stats().unreplicated, 0);
}

#[test]
fn with_a_replica_that_hangs_every_call_fails_in_time() {
    let deployment = Replicated::start(1);
    deployment.pause_replica(0);
    too_few(deployment.master());
}

fn too_few(master: &Server) {
    let client = requiring(1, &master.url()).build().unwrap();
    let lock = client.reentrant_lock("lock");
    let wait = millis(700);
    let once = || lock.try_lock(Duration::ZERO, Lease::RENEWED).map(drop);
    let wait_a_little = || lock.try_lock(wait, Lease::RENEWED).map(drop);
    let wait_for_ever = || lock.lock();
    let mut before = 0;
    for (least, most, call) in [
        (millis(REPLICATION), millis(TIMEOUT), &once),
        (wait, wait + millis(REPLICATION), &wait_a_little),
        (millis(TIMEOUT) * 10, millis(TIMEOUT) * 10, &wait_for_ever),
    ]
        as [(Duration, Duration, &dyn Fn() -> leasehold::Result<()>); 3]
    {
        let start = Instant::now();
        assert_eq!(confirmed(call(), 1, master), 0);
        let took = start.elapsed();
        assert!(took + millis(2) >= least, "{least:?}: {took:?}");
        assert!(took <= most + SLIP.get() * 2, "{most:?}: {took:?}");
        assert!(!has(master, "lock"), "it was released");
        let unreplicated = client.stats().unreplicated;
        assert!(unreplicated > before);
        if before == 0 {
            assert_eq!(unreplicated, 1);
        }
        before = unreplicated;
    }
    let both = client.multi_lock(["a", "b"]);
    assert_error!(
        both.try_lock(Duration::ZERO, Lease::RENEWED),
        TooFewReplicas
    );
    eventually("both are released", || {
        !has(master, "a") && !has(master, "b")
    });
    assert!(lock.hold_count() == 0 && client.stats().acquisitions == 0);
    // The client still works: the same thread gets the lock if fewer replicas are required.
    let modest = crate::support::client(&master.url());
    let guard = modest.reentrant_lock("lock").acquire().unwrap();
    guard.unlock().unwrap();
}

/// A nested acquire waits only for replies, also of a read lock within a write lock.
#[test]
fn a_read_lock_within_a_write_lock_fails_in_time() {
    let deployment = Replicated::start(1);
    let client = requiring(1, &deployment.url());
    let client = client.give_up_after(millis(2 * TIMEOUT)).build().unwrap();
    let lock = client.read_write_lock("lock");
    let _writing = lock.write().acquire().unwrap();
    deployment.pause_replica(0);
    within(millis(2 * TIMEOUT) + SLIP.get() * 2, "a lock", || {
        assert_eq!(confirmed(lock.read().lock(), 1, deployment.master()), 0);
    });
    assert_eq!(lock.read().hold_count(), 0);
    assert!(client.stats().unreplicated > 1);
}

/// However short the timeout for the replicas is, each attempt is followed by a pause.
#[test]
fn a_short_timeout_for_replicas_does_not_flood_the_server() {
    let server = Server::start();
    let client = requiring(1, &server.url()).min_replicas(1, millis(1));
    let client = client.build().unwrap();
    let lock = client.reentrant_lock("lock");
    confirmed(lock.try_lock(millis(2_000), Lease::RENEWED), 1, &server);
    let attempts = client.stats().unreplicated;
    assert!((2..20).contains(&attempts), "{attempts}");
}

/// A lock that another client holds needs no confirmation.
#[test]
fn a_lock_that_is_granted_after_a_message_is_confirmed_too() {
    let server = Server::start();
    let holder = client(&server.url()).reentrant_lock("lock");
    let guard = holder.acquire().unwrap();
    let client = requiring(1, &server.url()).build().unwrap();
    let lock = client.reentrant_lock("lock");
    assert!(!lock.try_lock(millis(50), Lease::RENEWED).unwrap());
    assert_eq!(client.stats().unreplicated, 0);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| lock.try_lock(millis(2_000), Lease::RENEWED));
        eventually("it to listen", || {
            server.ask::<u32>(redis::cmd("ZCARD").arg("leasehold_line:{lock}")) > 0
        });
        guard.unlock().unwrap();
        confirmed(waiter.join().unwrap(), 1, &server);
    });
    assert!(client.stats().unreplicated > 0);
}

#[test]
fn a_replica_that_resumes_in_time_is_enough() {
    let deployment = Replicated::start(1);
    let client = requiring(1, &deployment.url()).command_timeout(SOON.get());
    let client = client.build().unwrap();
    let lock = client.reentrant_lock("lock");
    let calls = [
        &|| lock.lock(),
        &|| {
            lock.try_lock(SOON.get(), Lease::RENEWED)
                .map(|taken| assert!(taken))
        },
        &|| lock.lock_interruptibly(Lease::RENEWED, &Interrupt::new()),
    ] as [&(dyn Fn() -> leasehold::Result<()> + Sync); 3];
    for call in calls {
        deployment.pause_replica(0);
        let before = client.stats().unreplicated;
        thread::scope(|scope| {
            let locker = scope.spawn(|| {
                call()?;
                let on_both = [deployment.master(), deployment.replica(0)];
                assert!(on_both.iter().all(|server| has(server, "lock")));
                lock.unlock()
            });
            eventually("one that is released", || {
                client.stats().unreplicated > before
            });
            deployment.resume_replica(0);
            locker.join().unwrap().unwrap();
        });
    }
}

#[test]
fn several_names_are_on_the_replica_after_one_wait() {
    let deployment = Replicated::start(1);
    let client = requiring(1, &deployment.url()).min_replicas(1, SOON.get());
    let client = client.command_timeout(SOON.get()).build().unwrap();
    let lock = client.multi_lock(["a", "b"]);
    pair(&lock);
    let mut monitor = Monitor::of(deployment.master());
    let guard = lock.acquire().unwrap();
    assert!(
        ["a", "b"]
            .iter()
            .all(|name| has(deployment.replica(0), name))
    );
    assert_eq!(monitor.commands(), ["EVALSHA", "EVALSHA", "WAIT"]);
    guard.unlock().unwrap();
    assert_eq!(client.stats().unreplicated, 0);
}

/// The threads that open connections for the confirmations end with the client.
#[cfg(target_os = "linux")]
#[test]
fn the_threads_of_its_connections_end_with_the_client() {
    let server = Server::start();
    Process::start("drop_a_pool", &[&server.url()]).finish();
}

/// Runs in a process of its own, because it counts threads.
#[cfg(target_os = "linux")]
pub fn drop_a_pool(arguments: &[&str]) {
    let client = requiring(1, arguments[0]).build().unwrap();
    let lock = client.reentrant_lock("lock");
    lock.try_lock(Duration::ZERO, Lease::RENEWED)
        .expect_err("there is no replica");
    let pooled = || {
        let names = crate::lifetime::shutdown::threads().into_iter();
        names.filter(|name| name.starts_with("r2d2")).count()
    };
    assert_eq!(pooled(), 3);
    drop((lock, client));
    within(SOON.get() / 2, "the end of the threads", || {
        eventually("the threads to end", || pooled() == 0);
    });
    child::send_line("done");
}
