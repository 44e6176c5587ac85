//! A server that forks its workers: what was made before the fork works in each of them.

use fork::Fork;

use super::{run_child, wait_for};
use crate::support::connect;
use crate::support::prelude::*;

/// In the child: the interrupt ends the wait of a thread with a client of the child.
fn ends_a_wait(interrupt: &Interrupt, url: &str, name: &str) {
    let mut redis = connect(url);
    let (one, other) = (client(url), client(url));
    let held = other.reentrant_lock(name);
    held.lock_with(Lease::fixed(SOON.get() * 6))
        .expect("it is free");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let lock = one.reentrant_lock(name);
            lock.lock_interruptibly(Lease::RENEWED, interrupt)
        });
        eventually("the waiter to subscribe", || {
            in_redis::listening(&mut redis, name) == 1
        });
        within(SLIP.get(), "from the interrupt to the end", || {
            interrupt.interrupt();
            let ended = waiter.join().expect("the thread panicked, see above");
            assert_error!(ended, Interrupted);
        });
    });
    held.unlock().expect("it is held");
}

/// The role: makes an interrupt, but no client, and forks.
pub fn fork_with_an_interrupt(arguments: &[&str]) {
    let &[url, name] = arguments else {
        panic!("{arguments:?}")
    };
    let interrupt = Interrupt::new();
    for _ in 0..2 {
        let child = match fork::fork().expect("the system can fork") {
            Fork::Parent(child) => child,
            Fork::Child => run_child(|| ends_a_wait(&interrupt, url, name)),
        };
        wait_for(child);
        assert!(!interrupt.is_interrupted(), "it is raised in the child");
    }
}

#[test]
fn an_interrupt_that_was_made_before_a_fork_ends_waits_in_the_child() {
    let server = Server::start();
    let name = unique("fork");
    child::run_role("fork_with_an_interrupt", &[&server.url(), &name]);
    assert!(in_redis::is_free(&server, &name));
}
