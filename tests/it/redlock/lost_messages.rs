//! Messages that do not come, and majorities that hang.

use super::{NAME, Servers, scripts, take_all};
use crate::support::prelude::*;

/// Raised at the end of a test, also after a panic.
struct Raised<'a>(&'a Interrupt);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}

/// A waiter releases what a minority grants to it. It must not be woken by its own release.
#[test]
#[ignore = "soak"]
fn a_waiter_does_not_wake_itself_while_a_majority_is_dead() {
    let servers = Servers::start(3);
    let clients = servers.clients();
    let guard = take_all(&clients, Lease::RENEWED);
    let waiter = servers.lock();
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.lock_interruptibly(Lease::RENEWED, &interrupt));
        let raised = Raised(&interrupt);
        let [alive, dead @ ..] = &servers.0[..] else {
            unreachable!("there are three");
        };
        eventually("the waiter to subscribe", || {
            let channels = redis::cmd("PUBSUB").arg("CHANNELS").arg("*lock*").clone();
            servers.0.iter().all(|server| {
                let channels: Vec<String> = server.ask(&channels);
                channels.iter().any(|channel| channel.contains(NAME))
            })
        });
        dead.iter().for_each(Server::kill);
        let before = scripts(alive);
        drop(guard);
        // After its first pauses, which are short.
        eventually("some failed attempts", || scripts(alive) > before + 14);
        let before = scripts(alive);
        throughout(A_WHILE.get() * 20, "the waiter waits", || {
            !waiting.is_finished()
        });
        let calls = scripts(alive) - before;
        drop(raised);
        let result = waiting.join().unwrap();
        assert_matches!(result, Err(Error::Interrupted { .. }));
        // Each attempt acquires and releases, and the pauses are 0.4 s long.
        let most = 2 * (A_WHILE.get() * 20).as_millis() / 400 + 6;
        assert!(u128::from(calls) <= most, "{calls} script calls");
    });
}
