//! The server hangs: every call ends in time, and no permit is lost.

use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use leasehold::{Error, Interrupt, Result};

use crate::faults::proxied_server::is_not_released;
use crate::support::builder;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, SLIP, SOON, eventually, millis, throughout, within};

/// What the documentation allows beyond the time limits of a call, and a busy machine.
fn grace() -> Duration {
    Duration::from_millis(250) + SLIP.get()
}

fn is_unavailable<T: std::fmt::Debug>(result: &Result<T>) {
    assert!(
        matches!(result, Err(Error::Unavailable { .. })),
        "{result:?}"
    );
}

#[test]
fn calls_end_in_time_and_their_effect_is_certain_afterwards() {
    let server = Server::start();
    let timeout = millis(100);
    let client = builder(&server.url())
        .command_timeout(timeout)
        .build()
        .unwrap();
    let semaphore = client.semaphore("slots");
    assert!(semaphore.try_set_permits(10).unwrap());
    server.pause();
    is_unavailable(&within(timeout + grace(), "a question", || {
        semaphore.available()
    }));
    is_unavailable(&within(timeout + grace(), "an attempt", || {
        semaphore.try_acquire(3, Duration::ZERO)
    }));
    is_unavailable(&within(timeout * 3 + grace(), "a wait", || {
        semaphore.try_acquire(3, timeout * 3)
    }));
    let released = within(timeout * 3 + grace(), "a release", || semaphore.release(1));
    assert!(is_not_released(&released), "{released:?}");
    is_unavailable(&within(timeout * 3 + grace(), "a drain", || {
        semaphore.drain()
    }));
    is_unavailable(&within(timeout * 10 + grace(), "an acquire", || {
        semaphore.acquire(3)
    }));
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| semaphore.acquire_interruptibly(3, &interrupt));
        throughout(timeout * 2, "it waits for a reply", || {
            !waiter.is_finished()
        });
        interrupt.interrupt();
        let result = within(timeout + grace(), "an interrupt", || waiter.join().unwrap());
        assert!(
            matches!(result, Err(Error::Interrupted { .. })),
            "{result:?}"
        );
    });
    server.resume();
    // What was taken is given back, and the release is executed once.
    eventually("all permits", || semaphore.available().unwrap() == 11);
    throughout(A_WHILE.get() * 3, "all permits", || {
        semaphore.available().unwrap() == 11
    });
}

#[test]
fn threads_that_wait_behind_another_end_in_time() {
    let server = Server::start();
    let timeout = millis(100);
    let client = builder(&server.url())
        .command_timeout(timeout)
        .build()
        .unwrap();
    let semaphore = client.semaphore("slots");
    let wait = SOON.get() / 10;
    thread::scope(|scope| {
        let limited = [(); 3].map(|()| scope.spawn(|| semaphore.try_acquire(1, wait)));
        eventually("one listens", || client.stats().wakeups_by_message > 0);
        server.pause();
        within(wait + timeout + grace() * 2, "the waits", || {
            limited
                .into_iter()
                .for_each(|one| is_unavailable(&one.join().unwrap()));
        });
        server.resume();
    });
}

/// The first one waits for its reply without a limit, the others do not.
#[test]
fn a_thread_that_waits_for_a_reply_without_a_limit_keeps_no_other_thread() {
    let server = Server::start();
    let timeout = millis(100);
    let client = builder(&server.url())
        .command_timeout(timeout)
        .build()
        .unwrap();
    let semaphore = client.semaphore("slots");
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let first = scope.spawn(|| semaphore.acquire_interruptibly(1, &interrupt));
        eventually("it listens", || client.stats().wakeups_by_message > 0);
        let others = [(); 3].map(|()| scope.spawn(|| semaphore.acquire(1)));
        throughout(A_WHILE.get(), "they wait", || {
            others.iter().all(|one| !one.is_finished())
        });
        server.pause();
        // The subscriber notices that the server is silent, and wakes the first thread. From then
        // on it takes ten command timeouts.
        let end = Instant::now() + SOON.get() * 2;
        while !others.iter().all(ScopedJoinHandle::is_finished) && Instant::now() < end {
            thread::sleep(millis(5));
        }
        let ended = others.iter().filter(|one| one.is_finished()).count();
        assert!(!first.is_finished());
        interrupt.interrupt();
        let result = first.join().unwrap();
        assert!(
            matches!(result, Err(Error::Interrupted { .. })),
            "{result:?}"
        );
        server.resume();
        semaphore.release(4).unwrap();
        for other in others {
            is_unavailable(&other.join().unwrap());
        }
        assert_eq!(ended, 3);
    });
}

/// The server refused every connection, so no copy of the request was sent.
#[test]
fn a_release_that_could_not_be_sent_is_sent_later() {
    let server = Server::start();
    let builder = builder(&server.url()).command_timeout(millis(50));
    let semaphore = builder.build().unwrap().semaphore("slots");
    server.kill();
    let released = semaphore.release(1);
    assert!(is_not_released(&released), "{released:?}");
    server.start_again();
    eventually("the release", || {
        semaphore.available().is_ok_and(|free| free == 1)
    });
}
