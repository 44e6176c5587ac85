//! Requests that arrive late: after their caller has given up, or has continued.

use std::time::Duration;

use leasehold::{Error, Lease, LockClient, LockGuard, ReentrantLock};

use super::proxied_server::{Bench, Books, is_unavailable};
use crate::support::proxy::{Fault, Gate};
use crate::support::timing::{LEASE, SLIP, SOON, eventually, throughout, within};
use crate::support::{elsewhere, unique};

/// Long enough to retry a renewal on a busy machine.
fn lease() -> Duration {
    LEASE.get() * 2
}

fn client(bench: &Bench) -> LockClient {
    let builder = bench.builder(SLIP.get()).watchdog_lease(lease());
    let client = builder.build().expect("the settings are good");
    // Opens a connection, so that the first attempt of a call is sent at once.
    let guard = client.reentrant_lock("first").acquire();
    guard.and_then(LockGuard::unlock).expect("it is free");
    client
}

/// The next `most` requests that run `script` wait at the gate.
fn hold_back(bench: &Bench, script: &'static str, most: usize) -> Gate {
    let gate = Gate::new();
    let (held, mut left) = (gate.clone(), most);
    bench.proxy.on_request(move |request| {
        if left > 0 && request.runs(script) {
            left -= 1;
            return Fault::HoldBack(held.clone());
        }
        Fault::Pass
    });
    gate
}

fn holds(gate: &Gate, least: usize) {
    eventually("requests to be held back", || gate.held() >= least);
}

/// The delayed requests arrive and are executed.
fn let_go(gate: &Gate) {
    holds(gate, 1);
    let held = gate.held();
    gate.open();
    eventually("what was held back to be done", || gate.passed() >= held);
}

/// A hold of this thread that is valid in the client and in Redis, and is renewed.
struct Standing {
    lock: ReentrantLock,
    holder: (String, u32),
    books: Books,
}

impl Standing {
    fn of(bench: &Bench, lock: &ReentrantLock) -> Self {
        let mut books = bench.books();
        let holder = books.holder(lock.name()).expect("it is held");
        assert_eq!(holder.1, lock.hold_count());
        let lock = lock.clone();
        Self {
            lock,
            holder,
            books,
        }
    }

    #[track_caller]
    fn stands(&mut self) {
        let name = self.lock.name();
        let found = (self.books.holder(name), self.lock.hold_count());
        let expected = (Some(self.holder.clone()), self.holder.1);
        assert_eq!(found, expected, "in Redis, and in the client");
        assert!(self.books.time_to_live(name) > Duration::ZERO);
    }

    #[track_caller]
    fn stays(&mut self) {
        throughout(lease() * 2, "the hold, in Redis and in the client", || {
            self.stands();
            true
        });
    }
}

/// The release was retried, and the retry was answered.
#[test]
fn a_release_that_arrives_after_the_next_acquire_leaves_the_new_hold_alone() {
    let bench = Bench::new();
    let client = client(&bench);
    let lock = client.reentrant_lock(&unique("late"));
    lock.lock().unwrap();
    let gate = hold_back(&bench, "release", 1);
    lock.unlock().unwrap();
    assert_eq!(bench.books().count(lock.name()), 0);
    let guard = lock.acquire().unwrap();
    let mut hold = Standing::of(&bench, &lock);
    let_go(&gate);
    hold.stands();
    hold.stays();
    guard.check().unwrap();
    assert_eq!(client.stats().lost, 0);
    assert!(client.stats().renewals > 0);
    guard.unlock().unwrap();
}

/// The late acquire takes the lock again without a holder. The lost hold must not be confused with
/// it.
#[test]
#[ignore = "soak"]
fn an_acquire_that_arrives_after_its_lock_was_deleted_does_not_hide_the_loss() {
    let bench = Bench::new();
    let client = client(&bench);
    let lock = client.reentrant_lock(&unique("late"));
    let gate = hold_back(&bench, "acquire", 1);
    let guard = lock.acquire().unwrap();
    holds(&gate, 1);
    // Meanwhile another client held the lock.
    bench.server.ask::<()>(redis::cmd("DEL").arg(lock.name()));
    let_go(&gate);
    let told = guard.lost().recv_timeout(lease());
    assert!(told.is_ok(), "{told:?}");
    assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
}

/// The release was never answered, and its caller gave up.
#[test]
#[ignore = "soak"]
fn releases_that_arrive_after_their_call_gave_up_leave_the_new_hold_alone() {
    let bench = Bench::new();
    let client = client(&bench);
    let lock = client.reentrant_lock(&unique("late"));
    lock.lock().unwrap();
    let gate = hold_back(&bench, "release", usize::MAX);
    let result = lock.unlock();
    assert!(is_unavailable(&result), "{result:?}");
    // It was retried.
    holds(&gate, 2);
    bench.proxy.calm();
    // The background releases the lock.
    let guard = within(lease(), "the next lock", || lock.acquire().unwrap());
    let mut hold = Standing::of(&bench, &lock);
    let_go(&gate);
    hold.stands();
    hold.stays();
    guard.check().unwrap();
    assert_eq!(client.stats().lost, 0);
    guard.unlock().unwrap();
}

#[test]
#[ignore = "soak"]
fn an_acquire_that_arrives_after_its_call_gave_up_is_taken_back_at_once() {
    let bench = Bench::new();
    let client = client(&bench);
    let lock = client.reentrant_lock(&unique("late"));
    let gate = Gate::new();
    let (held, mut connections) = (gate.clone(), Vec::new());
    bench.proxy.on_request(move |request| {
        if request.runs("acquire") {
            connections.push(request.connection);
            return Fault::HoldBack(held.clone());
        }
        // The additional release of the background may arrive before the acquire that it
        // compensates.
        if request.runs("release") && !connections.contains(&request.connection) {
            return Fault::SwallowRequest;
        }
        Fault::Pass
    });
    let result = lock.try_lock(Duration::ZERO, Lease::fixed(LEASE.get() * 60));
    assert!(is_unavailable(&result), "{result:?}");
    assert_eq!(lock.hold_count(), 0);
    let_go(&gate);
    // Long before the end of the lease.
    bench
        .books()
        .comes_to(0, lock.name(), lease(), "a late acquire");
}

#[test]
fn an_acquire_that_arrives_late_does_not_touch_the_next_hold() {
    let bench = Bench::new();
    let client = client(&bench);
    let lock = client.reentrant_lock(&unique("late"));
    let gate = hold_back(&bench, "acquire", usize::MAX);
    let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
    assert!(is_unavailable(&result), "{result:?}");
    holds(&gate, 1);
    bench.proxy.calm();
    let guard = lock.acquire().unwrap();
    lock.lock().unwrap();
    let mut hold = Standing::of(&bench, &lock);
    let_go(&gate);
    hold.stands();
    hold.stays();
    lock.unlock().unwrap();
    guard.check().unwrap();
    guard.unlock().unwrap();
    assert_eq!(bench.books().count(lock.name()), 0);
}

/// The connection is closed, so no compensation can follow on it.
#[test]
#[ignore = "soak"]
fn an_acquire_that_arrives_from_a_dead_connection_holds_for_one_lease_at_most() {
    let bench = Bench::new();
    let client = client(&bench);
    let lock = client.reentrant_lock(&unique("late"));
    let gate = hold_back(&bench, "acquire", 1);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            holds(&gate, 1);
            bench.proxy.reset_all();
        });
        let result = lock.lock();
        // Its retry was answered.
        lock.unlock().unwrap();
        result
    });
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(bench.books().count(lock.name()), 0);
    let_go(&gate);
    let rival = bench.rival().reentrant_lock(lock.name());
    within(lease() + SLIP.get(), "another client's lock", || {
        rival.lock().unwrap();
    });
    let mut books = bench.books();
    assert_eq!(books.count(lock.name()), 1);
    rival.unlock().unwrap();
    assert_eq!(books.count(lock.name()), 0);
}

/// A nested acquire was retried, answered and unlocked before its first copy arrives.
#[test]
#[ignore = "soak"]
fn a_nested_acquire_that_arrives_after_its_unlock_changes_no_count() {
    let bench = Bench::new();
    let client = client(&bench);
    let lock = client.reentrant_lock(&unique("late"));
    lock.lock().unwrap();
    let gate = hold_back(&bench, "recount", 1);
    lock.lock().unwrap();
    lock.unlock().unwrap();
    let_go(&gate);
    assert_eq!(lock.hold_count(), 1);
    assert_eq!(bench.books().count(lock.name()), 1);
    lock.unlock().unwrap();
    assert_eq!(bench.books().count(lock.name()), 0);
}

/// An inner unlock was retried, answered and followed by a nested acquire before its first copy
/// arrives.
#[test]
#[ignore = "soak"]
fn an_inner_unlock_that_arrives_after_the_next_nested_acquire_changes_no_count() {
    let bench = Bench::new();
    let client = client(&bench);
    let lock = client.reentrant_lock(&unique("late"));
    lock.lock().unwrap();
    lock.lock().unwrap();
    let gate = hold_back(&bench, "recount", 1);
    lock.unlock().unwrap();
    lock.lock().unwrap();
    let_go(&gate);
    assert_eq!(lock.hold_count(), 2);
    assert_eq!(bench.books().count(lock.name()), 2);
    lock.unlock().unwrap();
    lock.unlock().unwrap();
    assert_eq!(bench.books().count(lock.name()), 0);
}

/// The compensation that was sent behind it arrives behind it.
#[test]
#[ignore = "soak"]
fn a_nested_acquire_that_arrives_after_its_call_gave_up_leaves_the_count_right() {
    let bench = Bench::new();
    let client = client(&bench);
    let lock = client.reentrant_lock(&unique("late"));
    let guard = lock.acquire().unwrap();
    let gate = hold_back(&bench, "recount", usize::MAX);
    let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
    assert!(is_unavailable(&result), "{result:?}");
    holds(&gate, 1);
    bench.proxy.calm();
    let_go(&gate);
    let mut books = bench.books();
    books.comes_to(1, lock.name(), lease(), "a nested acquire that failed");
    Standing::of(&bench, &lock).stays();
    guard.unlock().unwrap();
    assert_eq!(books.count(lock.name()), 0);
}

#[test]
#[ignore = "soak"]
fn a_nested_acquire_that_arrives_after_the_release_leaves_the_next_holder_alone() {
    let bench = Bench::new();
    let client = client(&bench);
    let lock = client.reentrant_lock(&unique("late"));
    lock.lock().unwrap();
    let gate = hold_back(&bench, "recount", 1);
    lock.lock().unwrap();
    bench.proxy.calm();
    lock.unlock().unwrap();
    lock.unlock().unwrap();
    let rival = bench.rival().reentrant_lock(lock.name());
    rival.lock().unwrap();
    let mut hold = Standing::of(&bench, &rival);
    let_go(&gate);
    hold.stands();
    rival.unlock().unwrap();
    // Nor the next hold of the same thread.
    lock.lock().unwrap();
    assert_eq!(bench.books().count(lock.name()), 1);
    lock.unlock().unwrap();
}

/// A delayed renewal whose hold is unlocked meanwhile.
fn a_late_renewal(bench: &Bench, lock: &ReentrantLock) -> Gate {
    let gate = hold_back(bench, "renew", 1);
    lock.lock().unwrap();
    holds(&gate, 1);
    lock.unlock().unwrap();
    gate
}

#[test]
fn a_renewal_that_arrives_after_anothers_acquire_is_nothing_to_its_hold() {
    let bench = Bench::new();
    let client = client(&bench);
    let lock = client.reentrant_lock(&unique("late"));
    let gate = a_late_renewal(&bench, &lock);
    let rival = bench.rival().reentrant_lock(lock.name());
    let short = Lease::fixed(LEASE.get());
    assert!(rival.try_lock(Duration::ZERO, short).unwrap());
    let mut hold = Standing::of(&bench, &rival);
    let_go(&gate);
    hold.stands();
    let left = bench.books().time_to_live(lock.name());
    assert!(left <= LEASE.get(), "{left:?}");
    rival.unlock().unwrap();
    assert_eq!(bench.books().count(lock.name()), 0);
}

#[test]
#[ignore = "soak"]
fn a_renewal_that_arrives_after_the_same_threads_next_acquire_does_not_lengthen_its_lease() {
    let bench = Bench::new();
    let client = client(&bench);
    let lock = client.reentrant_lock(&unique("late"));
    let gate = a_late_renewal(&bench, &lock);
    let short = Lease::fixed(LEASE.get());
    assert!(lock.try_lock(Duration::ZERO, short).unwrap());
    let mut hold = Standing::of(&bench, &lock);
    let_go(&gate);
    hold.stands();
    let left = bench.books().time_to_live(lock.name());
    assert!(left <= LEASE.get(), "{left:?}");
    lock.unlock().unwrap();
}

/// Another thread sent it, and gave up before the holder unlocked.
#[test]
#[ignore = "soak"]
fn an_extend_of_another_thread_that_arrives_after_the_next_acquire_does_not_lengthen_its_lease() {
    let bench = Bench::new();
    let client = client(&bench);
    let lock = client.reentrant_lock(&unique("late"));
    let guard = lock.acquire().unwrap();
    let gate = hold_back(&bench, "renew", usize::MAX);
    let result = elsewhere(|| guard.extend(SOON.get() * 6));
    assert!(is_unavailable(&result), "{result:?}");
    holds(&gate, 1);
    bench.proxy.calm();
    guard.unlock().unwrap();
    let short = Lease::fixed(LEASE.get());
    assert!(lock.try_lock(Duration::ZERO, short).unwrap());
    let mut hold = Standing::of(&bench, &lock);
    let_go(&gate);
    hold.stands();
    let left = bench.books().time_to_live(lock.name());
    assert!(left <= LEASE.get(), "{left:?}");
    lock.unlock().unwrap();
}
