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
        let is_expected = match kind {
            Kind::Leased => is_not_released,
            Kind::Semaphore | Kind::Latch => is_change_without_reply,
        };
        assert!(is_expected(&released), "{kind:?}: {released:?}");
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
