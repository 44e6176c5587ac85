//! A server that hangs: every call returns in time, and everything works again when the server is
//! back.

use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Interrupt, Lease, LockClient};

use crate::faults::proxied_server::is_unavailable;
use crate::support::child::{self, Process};
use crate::support::outcome::{assert_error, take_and_release};
use crate::support::server::Server;
use crate::support::timing::{SOON, eventually, millis, within};
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
        take_and_release(&early.reentrant_lock(name));
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
    take_and_release(&lock);
    let took = resumed.elapsed();
    assert!(took < millis(1000), "after the server was back: {took:?}");
}

/// What `faults::hangs` does not call: guards, and a call that is interrupted.
#[test]
fn guards_and_interrupts_end_in_time() {
    let server = Server::start();
    let timeout = millis(200);
    let builder = crate::support::builder(&server.url()).watchdog_lease(SOON.get());
    let builder = builder.command_timeout(timeout).connect_timeout(timeout);
    let client = builder.build().unwrap();
    let lock = client.reentrant_lock("lock");
    let held = client.reentrant_lock("held");
    let guard = held.acquire().unwrap();
    held.lock().unwrap();
    server.pause();
    let slip = millis(250) + millis(100);
    within(slip, "a nested pair", || {
        held.lock().and_then(|()| held.unlock()).unwrap();
    });
    let extended = within(timeout + slip, "extend", || guard.extend(SOON.get() * 2));
    assert_error!(extended, Unavailable);
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.lock_interruptibly(Lease::RENEWED, &interrupt));
        thread::sleep(timeout * 2);
        assert!(!waiting.is_finished(), "it retries until there is a reply");
        interrupt.interrupt();
        let result = within(timeout + slip, "the interrupt", || waiting.join().unwrap());
        assert_error!(result, Interrupted);
    });
    guard.check().expect("its lease still runs");
    within(timeout + slip, "a guard's drop", || drop(guard));
    let error = held.unlock().expect_err("the server hangs").to_string();
    assert!(
        error.contains("held") && error.contains(&server.address()),
        "{error}"
    );
    server.resume();
    eventually("nothing to be left", || {
        server.ask::<u32>(&redis::cmd("DBSIZE")) == 0
    });
    take_and_release(&lock);
    take_and_release(&held);
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

/// The head of the queue retries until it is interrupted. The others do not wait one after another
/// for a server that is down.
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
        assert_error!(first.join().unwrap(), Interrupted);
    });
}
