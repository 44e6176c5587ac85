//! The server hangs: every call ends in time, and no permit is lost.

use std::thread;
use std::time::Duration;

use leasehold::{Error, Interrupt, Result};

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
    let server = Server::options().alone().start();
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
    is_unavailable(&within(timeout * 3 + grace(), "a release", || {
        semaphore.release(1)
    }));
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

/// The first thread is told by its own request, and the others with it.
#[test]
fn threads_that_wait_behind_another_end_in_time() {
    let server = Server::start();
    let timeout = millis(100);
    let client = builder(&server.url())
        .command_timeout(timeout)
        .build()
        .unwrap();
    let semaphore = client.semaphore("slots");
    thread::scope(|scope| {
        let limited = [(); 3].map(|()| scope.spawn(|| semaphore.try_acquire(1, SOON.get() / 10)));
        eventually("one listens", || client.stats().wakeups_by_message > 0);
        server.pause();
        within(SOON.get() / 10 + timeout + grace(), "the waits", || {
            limited.map(|one| is_unavailable(&one.join().unwrap()))
        });
        server.resume();
        let others = [(); 3].map(|()| scope.spawn(|| semaphore.acquire(1)));
        throughout(A_WHILE.get(), "they wait", || {
            others.iter().all(|one| !one.is_finished())
        });
        server.pause();
        // Ten command timeouts from the next request on, which follows when the first thread
        // notices that its connection is silent.
        within(SOON.get() * 3, "the waits", || {
            others.map(|one| is_unavailable(&one.join().unwrap()))
        });
        server.resume();
    });
}
