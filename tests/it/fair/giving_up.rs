//! Threads that end their wait for a lock of which Redis knows who waits: the fair lock, and the
//! write lock.

use super::{await_places, places};
use crate::line;
use crate::support::prelude::*;

fn is_interrupted<T>(result: &leasehold::Result<T>) -> bool {
    matches!(result, Err(Error::Interrupted { .. }))
}

fn has_writer(server: &Server) -> bool {
    !line::places(server, "lock").is_empty()
}

/// Some threads wait for this lock, and one interrupt ends all their waits.
fn interrupt_together(lock: &dyn Lock, is_known: impl Fn() -> bool) {
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let wait = || lock.try_lock_interruptibly(SOON.get() * 2, Lease::RENEWED, &interrupt);
        let first = scope.spawn(wait);
        eventually("Redis to know", &is_known);
        let others = [(); 3].map(|()| scope.spawn(wait));
        thread::sleep(millis(10));
        interrupt.interrupt();
        for thread in others.into_iter().chain([first]) {
            assert!(is_interrupted(&thread.join().unwrap()));
        }
    });
    assert!(!is_known());
}

/// The next thread of the client leaves at the same moment, and has sent no request.
#[test]
fn threads_that_give_up_together_leave_no_place() {
    let server = Server::start();
    let (holder, other) = (client(&server.url()), client(&server.url()));
    let held = holder.fair_lock("fair").acquire().unwrap();
    let reading = holder.read_write_lock("lock").read().acquire().unwrap();
    let (fair, write) = (
        other.fair_lock("fair"),
        other.read_write_lock("lock").write(),
    );
    for _ in 0..20 {
        interrupt_together(&fair, || server.has("redisson_lock_queue:{fair}"));
        interrupt_together(&write, || has_writer(&server));
    }
    held.unlock().unwrap();
    reading.unlock().unwrap();
    eventually("no key", || server.size() == 0);
}

/// Redis refuses the next request of a waiting thread, and still replies.
#[test]
fn a_wait_that_is_refused_leaves_the_queue() {
    let server = Server::start();
    let (holder, other) = (client(&server.url()), client(&server.url()));
    let held = holder.fair_lock("lock").acquire().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| other.fair_lock("lock").acquire().map(drop));
        await_places(&server, 1);
        // Both at once, so that the waiting thread does not find the lock free.
        let mut replaced = redis::pipe();
        let replaced = replaced.atomic().del("lock").hset("lock", "mode", "read");
        replaced.exec(&mut server.connection()).unwrap();
        let refused = within(SOON.get(), "the refusal", || waiting.join().unwrap());
        assert_matches!(refused, Err(Error::WrongType { .. }));
        assert_eq!(places(&server), [""; 0]);
    });
    assert!(held.unlock().is_err());
}
