//! A server that hangs: every call returns in time, and everything works again when the server is
//! back.

use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Interrupt, Lease, LockClient};

use crate::faults::proxied_server::{is_not_released, is_unavailable};
use crate::support::child::{self, Process};
use crate::support::server::Server;
use crate::support::timing::{SOON, eventually, millis, throughout, within};
use crate::support::{process, unique};

/// The production settings, because their timeouts are tested.
fn client(url: &str) -> LockClient {
    LockClient::connect(url).unwrap()
}

/// With open connections, and with none.
#[test]
fn try_lock_returns_in_time_and_works_again() {
    for pool in ["warm", "cold"] {
        let server = Server::start();
        let name = unique("hang");
        let mut child = Process::start("hang", &[&server.url(), &name, pool]);
        assert_eq!(child.read_line(), "ready");
        server.pause();
        child.send_line("go");
        let line = child.read_line();
        server.resume();
        child.send_line("go");
        assert_eq!(line, "back");
        child.finish();
        eventually("nothing to be left of the attempts", || {
            server.ask::<u32>(&redis::cmd("DBSIZE")) == 0
        });
    }
}

/// The role: in its own process, because threads are counted.
pub fn hang(arguments: &[&str]) {
    let &[url, name, pool] = arguments else {
        panic!("{arguments:?}")
    };
    let early = client(url);
    if pool == "warm" {
        early
            .reentrant_lock(name)
            .acquire()
            .unwrap()
            .unlock()
            .unwrap();
    }
    let threads = process::threads();
    child::send_line("ready");
    child::read_line();
    let client = if pool == "warm" { early } else { client(url) };
    let threads = threads.max(process::threads());
    let lock = client.reentrant_lock(name);
    thread::scope(|scope| {
        for at in 0..4 {
            let lock = if at == 0 {
                lock.clone()
            } else {
                client.reentrant_lock(&format!("{name}:{at}"))
            };
            scope.spawn(move || {
                let wait = Duration::from_secs(2);
                let result = within(Duration::from_millis(2500), "try_lock", || {
                    lock.try_lock(wait, Lease::RENEWED)
                });
                assert!(is_unavailable(&result), "{result:?}");
            });
        }
    });
    // A thread that was joined may still be ending.
    eventually("no thread to be left behind", || {
        process::threads() <= threads
    });
    child::send_line("back");
    child::read_line();
    let resumed = Instant::now();
    lock.acquire().unwrap().unlock().unwrap();
    let took = resumed.elapsed();
    assert!(took < millis(1000), "after the server was back: {took:?}");
}

/// The documented time of each call, with a command timeout for tests.
#[test]
#[ignore = "soak"]
fn every_call_ends_in_time() {
    let server = Server::start();
    let timeout = millis(200);
    let client = crate::support::builder(&server.url())
        .watchdog_lease(SOON.get())
        .command_timeout(timeout)
        .connect_timeout(timeout)
        .pool_timeout(timeout)
        .build()
        .unwrap();
    let lock = client.reentrant_lock("lock");
    let held = client.reentrant_lock("held");
    let guard = held.acquire().unwrap();
    held.lock().unwrap();
    held.lock().unwrap();
    server.pause();
    let slip = millis(250) + millis(100);
    let check = |call: &str, timeouts: u32, work: &dyn Fn() -> leasehold::Result<()>| {
        let result = within(timeout * timeouts + slip, call, work);
        assert!(is_unavailable(&result), "{call}: {result:?}");
    };
    check("try_lock", 1, &|| {
        lock.try_lock(Duration::ZERO, Lease::RENEWED).map(drop)
    });
    check("try_acquire", 1, &|| {
        lock.try_acquire(timeout, Lease::RENEWED).map(drop)
    });
    check("lock", 10, &|| lock.lock());
    within(slip, "a nested pair", || {
        held.unlock().and_then(|()| held.lock()).unwrap();
        held.unlock().unwrap();
    });
    let longer = Lease::fixed(SOON.get() * 60);
    check("lock, nested and longer", 10, &|| held.lock_with(longer));
    check("extend", 1, &|| guard.extend(SOON.get() * 2));
    check("is_locked", 1, &|| lock.is_locked().map(drop));
    check("remaining_lease", 1, &|| lock.remaining_lease().map(drop));
    check("inspect", 1, &|| client.inspect("lock").map(drop));
    check("force_unlock", 1, &|| client.force_unlock("lock").map(drop));
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let lock = lock.clone();
        let waiting = scope.spawn(|| {
            let lock = lock;
            lock.lock_interruptibly(Lease::RENEWED, &interrupt)
        });
        thread::sleep(timeout * 2);
        assert!(!waiting.is_finished(), "it retries until there is a reply");
        interrupt.interrupt();
        let result = within(timeout + slip, "the interrupt", || waiting.join().unwrap());
        assert!(
            matches!(result, Err(Error::Interrupted { .. })),
            "{result:?}"
        );
    });
    guard.check().expect("its lease still runs");
    within(timeout + slip, "a guard's drop", || drop(guard));
    let error = held.unlock().expect_err("the server hangs");
    let text = error.to_string();
    assert!(
        text.contains("held") && text.contains(&server.address()),
        "{text}"
    );
    server.resume();
    eventually("nothing to be left", || {
        server.ask::<u32>(&redis::cmd("DBSIZE")) == 0
    });
    lock.acquire().unwrap().unlock().unwrap();
    held.acquire().unwrap().unlock().unwrap();
}

/// Acquires without a reply are released when the server reads on: no orphan is left.
#[test]
#[ignore = "soak"]
fn unanswered_acquires_leave_no_orphan() {
    let server = Server::start();
    let client = crate::support::builder(&server.url())
        .watchdog_lease(SOON.get() * 6)
        .command_timeout(millis(150))
        .build()
        .unwrap();
    let name = unique("ghost");
    let lock = client.reentrant_lock(&name);
    lock.acquire().unwrap().unlock().unwrap();
    server.pause();
    for _ in 0..3 {
        assert!(is_unavailable(&lock.try_lock(millis(300), Lease::RENEWED)));
    }
    server.resume();
    let other = crate::support::client(&server.url()).reentrant_lock(&name);
    within(millis(1000), "another client's lock", || {
        other.lock().unwrap();
    });
    // No late release removes the hold of the new holder.
    throughout(millis(500), "the hold", || {
        server.ask::<u32>(redis::cmd("HLEN").arg(&name)) == 1 && other.hold_count() == 1
    });
    other.unlock().unwrap();
}

/// A late release removes only what an early acquire took, never the current hold of the same
/// thread.
#[test]
#[ignore = "soak"]
fn late_requests_do_not_affect_the_next_hold() {
    let server = Server::start();
    let client = crate::support::builder(&server.url())
        .watchdog_lease(SOON.get() * 6)
        .command_timeout(millis(100))
        .build()
        .unwrap();
    let name = unique("late");
    let lock = client.reentrant_lock(&name);
    let guard = lock.acquire().unwrap();
    server.pause();
    for _ in 0..3 {
        assert!(is_unavailable(
            &client
                .reentrant_lock("other")
                .try_lock(millis(300), Lease::RENEWED)
        ));
    }
    assert!(is_not_released(&guard.unlock()));
    server.resume();
    // By the same thread, while releases of its earlier requests are still under way.
    let locks = [lock, client.reentrant_lock("other")];
    let guards = locks.each_ref().map(|lock| lock.acquire().unwrap());
    throughout(millis(1500), "both holds", || {
        server.ask::<u32>(&redis::cmd("DBSIZE")) == 2
            && guards.iter().all(|guard| guard.check().is_ok())
    });
    for guard in guards {
        guard.unlock().unwrap();
    }
}

/// An address that accepts connections and never replies.
#[test]
fn an_address_without_replies_is_reported_in_time() {
    let unanswering = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("redis://:secret@{}", unanswering.local_addr().unwrap());
    let client = crate::support::builder(&url)
        .connect_timeout(millis(200))
        .command_timeout(millis(200))
        .build()
        .unwrap();
    let lock = client.reentrant_lock("lock");
    let result = within(millis(200) + millis(350), "the first call", || {
        lock.try_lock(Duration::ZERO, Lease::RENEWED)
    });
    assert!(is_unavailable(&result), "{result:?}");
}

/// Threads in the queue do not wait one after another for a server that is down.
#[test]
fn threads_in_the_queue_wait_for_one_missing_reply_together() {
    let timeout = millis(100);
    // No server listens on this port.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .port();
    let client = LockClient::builder(&format!("redis://127.0.0.1:{port}"))
        .command_timeout(timeout)
        .build()
        .unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let lock = client.reentrant_lock("lock");
                within(timeout * 12 + millis(300), "lock", || {
                    assert!(is_unavailable(&lock.lock()));
                });
            });
        }
    });
}

/// The head of the queue retries until it is interrupted.
#[test]
fn threads_behind_an_unlimited_call_give_up_at_their_own_deadlines() {
    let timeout = millis(100);
    let unanswering = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = LockClient::builder(&format!("redis://{}", unanswering.local_addr().unwrap()))
        .command_timeout(timeout)
        .build()
        .unwrap();
    let (lock, interrupt) = (client.reentrant_lock("lock"), Interrupt::new());
    thread::scope(|scope| {
        let first = scope.spawn(|| lock.lock_interruptibly(Lease::RENEWED, &interrupt));
        // It has sent a request.
        drop(unanswering.accept().unwrap());
        let behind: Vec<_> = (0..4).map(|_| scope.spawn(|| lock.lock())).collect();
        within(timeout * 12 + millis(300), "lock", || {
            for thread in behind {
                assert!(is_unavailable(&thread.join().unwrap()));
            }
        });
        assert!(!first.is_finished());
        interrupt.interrupt();
        let result = first.join().unwrap();
        let is_interrupted = matches!(result, Err(Error::Interrupted { .. }));
        assert!(is_interrupted, "{result:?}");
    });
}
