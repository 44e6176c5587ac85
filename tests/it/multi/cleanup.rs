//! Nothing is left in Redis, however a call ends.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Duration;

use leasehold::{Error, Interrupt, Lease, LockClient};

use super::{is_held, long};
use crate::faults::in_redis;
use crate::support::client;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SLIP, eventually, within};

/// The last of three locks cannot be acquired. The others must be free afterwards.
struct Obstacle {
    server: Server,
    client: LockClient,
    _theirs: LockClient,
}

impl Obstacle {
    fn new() -> Self {
        let server = Server::start();
        let theirs = client(&server.url());
        theirs.reentrant_lock("c").lock_with(long()).unwrap();
        Self {
            client: client(&server.url()),
            server,
            _theirs: theirs,
        }
    }

    #[track_caller]
    fn is_alone(&self) {
        let keys: Vec<String> = self.server.ask(redis::cmd("KEYS").arg("*"));
        assert_eq!(keys, ["c"]);
        // The client itself has no hold either.
        crate::support::on_another_thread(|| {
            let others = self.client.multi_lock(["a", "b"]);
            assert!(others.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
            others.unlock().unwrap();
        });
    }
}

#[test]
fn nothing_is_left_if_the_last_lock_is_held() {
    let obstacle = Obstacle::new();
    let lock = obstacle.client.multi_lock(["a", "b", "c"]);
    for lease in [Lease::RENEWED, Lease::fixed(A_WHILE.get())] {
        for wait in [Duration::ZERO, A_WHILE.get() * 2] {
            assert!(!lock.try_lock(wait, lease).unwrap());
            obstacle.is_alone();
            assert!(lock.try_acquire(wait, lease).unwrap().is_none());
            obstacle.is_alone();
        }
    }
}

#[test]
fn nothing_is_left_if_a_part_is_refused() {
    let obstacle = Obstacle::new();
    obstacle
        .server
        .ask::<()>(redis::cmd("SET").arg("c").arg("no lock"));
    let lock = obstacle.client.multi_lock(["a", "b", "c"]);
    for result in [
        lock.lock(),
        lock.try_lock(LEASE.get(), Lease::RENEWED).map(drop),
    ] {
        let named = matches!(&result, Err(Error::WrongType { lock, .. }) if lock == "c");
        assert!(named, "{result:?}");
        obstacle.is_alone();
    }
}

#[test]
#[ignore = "soak"]
fn nothing_is_left_after_an_interrupt() {
    let obstacle = Obstacle::new();
    let lock = obstacle.client.multi_lock(["a", "b", "c"]);
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| lock.lock_interruptibly(Lease::RENEWED, &interrupt));
        let listeners = || in_redis::listeners(&obstacle.server, "c");
        eventually("it to wait for the last", || listeners() == 1);
        let result = within(SLIP.get() * 4, "the interrupt", || {
            interrupt.interrupt();
            waiter.join().unwrap()
        });
        assert!(matches!(result, Err(Error::Interrupted { lock }) if lock == "a, b, c"));
    });
    obstacle.is_alone();
}

#[test]
#[ignore = "soak"]
fn nothing_is_left_after_a_panic() {
    let obstacle = Obstacle::new();
    let lock = obstacle.client.multi_lock(["a", "b"]);
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.acquire().unwrap();
        assert!(is_held(&obstacle.server, "a") && is_held(&obstacle.server, "b"));
        // `resume_unwind` skips the panic hook, whose report would look like a failure.
        resume_unwind(Box::new("on purpose"));
    }));
    assert_eq!(result.unwrap_err().downcast_ref(), Some(&"on purpose"));
    obstacle.is_alone();
}

/// A level of a part that this thread held before remains.
#[test]
#[ignore = "soak"]
fn an_earlier_level_remains() {
    let obstacle = Obstacle::new();
    let outer = obstacle.client.reentrant_lock("b");
    outer.lock().unwrap();
    let lock = obstacle.client.multi_lock(["a", "b", "c"]);
    assert!(!lock.try_lock(A_WHILE.get(), Lease::RENEWED).unwrap());
    assert_eq!(outer.hold_count(), 1);
    assert!(is_held(&obstacle.server, "b") && !is_held(&obstacle.server, "a"));
    outer.unlock().unwrap();
    obstacle.is_alone();
}

/// A thread that knows of the loss of one part gets an error before anything is acquired.
#[test]
#[ignore = "soak"]
fn nothing_is_acquired_if_a_part_was_lost() {
    let obstacle = Obstacle::new();
    let outer = obstacle.client.reentrant_lock("b");
    outer.lock().unwrap();
    obstacle.server.ask::<()>(redis::cmd("DEL").arg("b"));
    eventually("the loss", || !outer.is_held_by_current_thread());
    let lock = obstacle.client.multi_lock(["a", "b"]);
    for _ in 0..2 {
        let result = lock.lock();
        assert!(
            matches!(&result, Err(Error::Lost { lock, .. }) if lock == "b"),
            "{result:?}"
        );
    }
    assert!(matches!(outer.unlock(), Err(Error::Lost { .. })));
    obstacle.is_alone();
}
