//! The server hangs or dies: every call ends in time, and no step is lost.

use leasehold::Result;

use super::{KINDS, Kind};
use crate::support::prelude::*;

fn timeout() -> Duration {
    millis(100)
}

/// What the documentation allows beyond the time limits of a call, and a busy machine.
fn grace() -> Duration {
    Duration::from_millis(250) + SLIP.get()
}

fn client(server: &Server) -> LockClient {
    let builder = builder(&server.url()).watchdog_lease(SOON.get());
    builder.command_timeout(timeout()).build().unwrap()
}

/// Runs `work` for all kinds at the same time, each with a server of its own.
fn each(work: impl Fn(Kind, &Server, &LockClient) + Sync) {
    thread::scope(|scope| {
        for kind in KINDS {
            let work = &work;
            scope.spawn(move || {
                let server = Server::start();
                work(kind, &server, &client(&server));
            });
        }
    });
}

#[test]
fn calls_end_in_time_and_their_effect_is_certain_afterwards() {
    each(|kind, server, client| {
        let steps = kind.of(client, "steps");
        let (semaphore, leased) = (steps.semaphore(), steps.leased());
        match kind {
            Kind::Latch => steps.close(10),
            _ => steps.add(10).unwrap(),
        }
        let leases = match kind {
            Kind::Leased => (0..3).map(|_| leased.acquire().unwrap()).collect(),
            _ => Vec::new(),
        };
        let mut leases = leases.into_iter();
        server.pause();
        let check = |what: &str, timeouts: u32, call: &dyn Fn() -> Result<()>| {
            let result = within(timeout() * timeouts + grace(), what, call);
            assert_error!(result, Unavailable, "{what} of {kind:?}");
        };
        check("a question", 1, &|| steps.left().map(drop));
        check("an attempt", 1, &|| {
            steps.wait_for(Duration::ZERO).map(drop)
        });
        check("a limited wait", 3, &|| {
            steps.wait_for(timeout() * 3).map(drop)
        });
        check("a wait", 10, &|| steps.wait().map(drop));
        let released = match kind {
            Kind::Leased => {
                let [first, second] = [leases.next().unwrap(), leases.next().unwrap()];
                check("confirm", 1, &|| first.confirm());
                check("extend", 1, &|| first.extend(SOON.get() * 6));
                check("change_number", 1, &|| leased.add_permits(0));
                within(timeout() + grace(), "a drop", || drop(first));
                within(timeout() * 3 + grace(), "a release", || second.release())
            }
            _ => within(timeout() * 3 + grace(), "a step", || steps.open()),
        };
        assert!(is_not_released(&released), "{kind:?}: {released:?}");
        if kind == Kind::Semaphore {
            check("a drain", 3, &|| semaphore.drain().map(drop));
        }
        let interrupt = Interrupt::new();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| steps.wait_interruptibly(None, &interrupt));
            throughout(timeout() * 2, "it waits for a reply", || {
                !waiter.is_finished()
            });
            interrupt.interrupt();
            let result = within(timeout() + grace(), "an interrupt", || {
                waiter.join().unwrap()
            });
            assert_error!(result, Interrupted, "{kind:?}");
        });
        server.resume();
        // What was taken is given back, and what was released is released once.
        let expected = match kind {
            Kind::Semaphore => 11,
            Kind::Leased | Kind::Latch => 9,
        };
        let is_exact = || steps.left().is_ok_and(|left| left == expected);
        eventually("the exact number", is_exact);
        throughout(A_WHILE.get() * 3, "the exact number", is_exact);
        if let Some(lease) = leases.next() {
            lease.confirm().unwrap();
        }
    });
}

/// The first one waits for its reply without a limit, the others do not.
#[test]
fn a_thread_that_waits_for_a_reply_without_a_limit_keeps_no_other_thread() {
    each(|kind, server, client| {
        let steps = kind.of(client, "steps");
        steps.close(1);
        let interrupt = Interrupt::new();
        thread::scope(|scope| {
            let first = scope.spawn(|| steps.wait_interruptibly(None, &interrupt));
            eventually("it listens", || client.stats().wakeups_by_message > 0);
            let others = [(); 3].map(|()| scope.spawn(|| steps.wait()));
            stay_waiting(&others);
            server.pause();
            // The subscriber notices that the server is silent, and wakes the first thread. From
            // then on it takes ten command timeouts.
            within(SOON.get() * 2, "the other waits", || {
                for other in others {
                    assert_error!(other.join().unwrap(), Unavailable, "{kind:?}");
                }
            });
            assert!(!first.is_finished());
            interrupt.interrupt();
            assert_error!(first.join().unwrap(), Interrupted, "{kind:?}");
            server.resume();
        });
    });
}

#[test]
fn waits_end_with_an_error_when_the_server_dies_and_a_release_is_sent_later() {
    each(|kind, server, client| {
        let steps = kind.of(client, "steps");
        steps.close(1);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| steps.wait());
            stay_waiting([&waiter]);
            server.kill();
            let result = within(timeout() * 10 + grace(), "the wait", || {
                waiter.join().unwrap()
            });
            assert_error!(result, Unavailable, "{kind:?}");
        });
        if kind == Kind::Semaphore {
            // The server refused every connection, so no copy of the request was sent.
            let released = steps.open();
            assert!(is_not_released(&released), "{released:?}");
            server.start_again();
            eventually("the release", || steps.left().is_ok_and(|left| left == 1));
        }
    });
}
