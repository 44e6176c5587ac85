//! A server that hangs: every call returns in time, and everything works again when the server is
//! back.

use std::net::{Ipv4Addr, TcpListener};

use leasehold::TimeLimit;

use crate::support::prelude::*;

/// What `faults::hangs` does not call: guards, and a call that is interrupted.
#[test]
fn guards_and_interrupts_end_in_time() {
    let server = Server::start();
    let timeout = millis(200);
    let builder = builder(&server.url()).watchdog_lease(SOON.get());
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
    pair(&lock);
    pair(&held);
}

/// No server replies: each call says which of its limits was over.
#[test]
fn the_limit_that_ended_a_call_is_named() {
    let short = millis(20);
    let client = LockClient::builder("redis://127.0.0.1:1")
        .command_timeout(short)
        .give_up_after(short * 5)
        .build()
        .unwrap();
    let lock = client.reentrant_lock("lock");
    let names = client.multi_lock(["lock", "other"]);
    let permits = client.leased_semaphore("permits");
    let wait = short * 3;
    let now = lock.try_acquire_now().map(drop);
    for (call, result, limit) in [
        ("try_acquire_now", now, TimeLimit::Command),
        ("is_locked", lock.is_locked().map(drop), TimeLimit::Command),
        (
            "try_lock",
            lock.try_lock(wait, Lease::RENEWED).map(drop),
            TimeLimit::Wait,
        ),
        (
            "names",
            names.try_lock(wait, Lease::RENEWED).map(drop),
            TimeLimit::Wait,
        ),
        (
            "permit",
            permits.try_acquire(wait, Lease::RENEWED).map(drop),
            TimeLimit::Wait,
        ),
        ("lock", lock.lock(), TimeLimit::GiveUp),
        ("all names", names.lock(), TimeLimit::GiveUp),
        ("a permit", permits.acquire().map(drop), TimeLimit::GiveUp),
        (
            "release",
            client.semaphore("free").release(1),
            TimeLimit::Command,
        ),
        (
            "wait",
            client.count_down_latch("latch").wait(),
            TimeLimit::GiveUp,
        ),
    ] {
        let error = result.expect_err(call);
        assert_eq!(error.time_limit(), Some(limit), "{call}: {error}");
        let text = error.to_string();
        assert!(
            text.contains(&format!("limited by {limit}")),
            "{call}: {text}"
        );
    }
    let refused = client.ping().expect_err("it is not repeated");
    assert_eq!(refused.time_limit(), None, "{refused}");
}

/// `give_up_after` is longer here than the default, ten command timeouts.
#[test]
fn a_call_that_waits_gives_up_when_its_client_says_so() {
    let (timeout, limit) = (millis(50), millis(1000));
    let unanswering = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = LockClient::builder(&format!("redis://{}", unanswering.local_addr().unwrap()))
        .command_timeout(timeout)
        .give_up_after(limit)
        .build()
        .unwrap();
    let (lock, semaphore) = (client.reentrant_lock("lock"), client.semaphore("permits"));
    let calls: [&(dyn Fn() -> leasehold::Result<()> + Sync); 3] = [
        &|| lock.lock(),
        &|| lock.try_lock(Duration::MAX, Lease::RENEWED).map(drop),
        &|| semaphore.acquire(1),
    ];
    thread::scope(|scope| {
        for call in calls {
            scope.spawn(move || {
                let began = Instant::now();
                let result = within(limit + SLIP.get(), "a call that waits", call);
                assert!(is_unavailable(&result));
                assert!(began.elapsed() >= limit, "after {:?}", began.elapsed());
            });
        }
    });
    // A call that does not wait.
    let now = within(timeout + SLIP.get(), "a call without a wait", || {
        lock.try_acquire_now()
    });
    assert!(is_unavailable(&now));
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
