//! Requests that arrive late: after their caller has given up, or has continued.

use std::time::Duration;

use leasehold::{Error, Lease, LockClient, LockGuard, ReentrantLock};

use super::proxied_server::{ProxiedServer, RedisView, is_not_released, is_unavailable};
use crate::support::proxy::{Fault, Gate};
use crate::support::timing::{LEASE, SLIP, SOON, eventually, throughout, within};
use crate::support::{on_another_thread, unique};

/// Long enough to retry a renewal on a busy machine.
fn lease() -> Duration {
    LEASE.get() * 2
}

fn client(proxied: &ProxiedServer) -> LockClient {
    let builder = proxied.builder(SLIP.get()).watchdog_lease(lease());
    let client = builder.build().expect("the settings are valid");
    // Opens a connection, so that the first attempt of a call is sent at once.
    let guard = client.reentrant_lock("first").acquire();
    guard.and_then(LockGuard::unlock).expect("it is free");
    client
}

/// The next `most` requests that run `script` wait at the gate.
fn delay_requests(proxied: &ProxiedServer, script: &'static str, most: usize) -> Gate {
    let gate = Gate::new();
    let (held, mut left) = (gate.clone(), most);
    proxied.proxy.on_request(move |request| {
        if left > 0 && request.runs(script) {
            left -= 1;
            return Fault::HoldBack(held.clone());
        }
        Fault::Pass
    });
    gate
}

fn await_delayed(gate: &Gate, least: usize) {
    eventually("requests to be held back", || gate.held() >= least);
}

/// The delayed requests arrive and are executed.
fn release_delayed(gate: &Gate) {
    await_delayed(gate, 1);
    let held = gate.held();
    gate.open();
    eventually("what was held back to be done", || gate.passed() >= held);
}

/// A hold of this thread that is valid in the client and in Redis, and is renewed.
struct RenewedHold {
    lock: ReentrantLock,
    holder: (String, u32),
    view: RedisView,
}

impl RenewedHold {
    fn of(proxied: &ProxiedServer, lock: &ReentrantLock) -> Self {
        let mut view = proxied.view();
        view.await_count(lock.hold_count(), lock.name(), SOON.get(), "its levels");
        let holder = view.holder(lock.name()).expect("it is held");
        let lock = lock.clone();
        Self { lock, holder, view }
    }

    #[track_caller]
    fn assert_valid(&mut self) {
        let name = self.lock.name();
        let found = (self.view.holder(name), self.lock.hold_count());
        let expected = (Some(self.holder.clone()), self.holder.1);
        assert_eq!(found, expected, "in Redis, and in the client");
        assert!(self.view.time_to_live(name) > Duration::ZERO);
    }

    #[track_caller]
    fn assert_stays_valid(&mut self) {
        throughout(lease() * 2, "the hold, in Redis and in the client", || {
            self.assert_valid();
            true
        });
    }
}

/// The release was retried, and the retry was answered.
#[test]
fn a_release_that_arrives_after_the_next_acquire_changes_nothing() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied);
    let lock = client.reentrant_lock(&unique("late"));
    lock.lock().unwrap();
    let gate = delay_requests(&proxied, "release", 1);
    lock.unlock().unwrap();
    assert_eq!(proxied.view().count(lock.name()), 0);
    let guard = lock.acquire().unwrap();
    let mut hold = RenewedHold::of(&proxied, &lock);
    release_delayed(&gate);
    hold.assert_valid();
    hold.assert_stays_valid();
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
    let proxied = ProxiedServer::new();
    let client = client(&proxied);
    let lock = client.reentrant_lock(&unique("late"));
    let gate = delay_requests(&proxied, "acquire", 1);
    let guard = lock.acquire().unwrap();
    await_delayed(&gate, 1);
    // Meanwhile another client held the lock.
    proxied.server.ask::<()>(redis::cmd("DEL").arg(lock.name()));
    release_delayed(&gate);
    let loss = guard.lost().recv_timeout(lease());
    assert!(loss.is_ok(), "{loss:?}");
    assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
}

/// The release was never answered, and its caller gave up.
#[test]
#[ignore = "soak"]
fn releases_that_arrive_after_their_call_gave_up_do_not_affect_the_new_hold() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied);
    let lock = client.reentrant_lock(&unique("late"));
    lock.lock().unwrap();
    let gate = delay_requests(&proxied, "release", usize::MAX);
    let result = lock.unlock();
    assert!(is_not_released(&result), "{result:?}");
    // It was retried.
    await_delayed(&gate, 2);
    proxied.proxy.clear_rules();
    // The background releases the lock.
    let guard = within(lease(), "the next lock", || lock.acquire().unwrap());
    let mut hold = RenewedHold::of(&proxied, &lock);
    release_delayed(&gate);
    hold.assert_valid();
    hold.assert_stays_valid();
    guard.check().unwrap();
    assert_eq!(client.stats().lost, 0);
    guard.unlock().unwrap();
}

#[test]
#[ignore = "soak"]
fn an_acquire_that_arrives_after_its_call_gave_up_is_compensated_at_once() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied);
    let lock = client.reentrant_lock(&unique("late"));
    let gate = Gate::new();
    let (held, mut connections) = (gate.clone(), Vec::new());
    proxied.proxy.on_request(move |request| {
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
    release_delayed(&gate);
    // Long before the end of the lease.
    proxied
        .view()
        .await_count(0, lock.name(), lease(), "a late acquire");
}

#[test]
fn an_acquire_that_arrives_late_does_not_affect_the_next_hold() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied);
    let lock = client.reentrant_lock(&unique("late"));
    let gate = delay_requests(&proxied, "acquire", usize::MAX);
    let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
    assert!(is_unavailable(&result), "{result:?}");
    await_delayed(&gate, 1);
    proxied.proxy.clear_rules();
    let guard = lock.acquire().unwrap();
    lock.lock().unwrap();
    let mut hold = RenewedHold::of(&proxied, &lock);
    release_delayed(&gate);
    hold.assert_valid();
    hold.assert_stays_valid();
    lock.unlock().unwrap();
    guard.check().unwrap();
    guard.unlock().unwrap();
    assert_eq!(proxied.view().count(lock.name()), 0);
}

/// The connection is closed, so no compensation can follow on it.
#[test]
#[ignore = "soak"]
fn an_acquire_that_arrives_from_a_dead_connection_holds_for_one_lease_at_most() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied);
    let lock = client.reentrant_lock(&unique("late"));
    let gate = delay_requests(&proxied, "acquire", 1);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            await_delayed(&gate, 1);
            proxied.proxy.reset_all();
        });
        let result = lock.lock();
        // Its retry was answered.
        lock.unlock().unwrap();
        result
    });
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(proxied.view().count(lock.name()), 0);
    release_delayed(&gate);
    let rival = proxied.rival().reentrant_lock(lock.name());
    within(lease() + SLIP.get(), "another client's lock", || {
        rival.lock().unwrap();
    });
    let mut view = proxied.view();
    assert_eq!(view.count(lock.name()), 1);
    rival.unlock().unwrap();
    assert_eq!(view.count(lock.name()), 0);
}

/// It needed a longer lease. It was retried, and the retry was answered.
#[test]
#[ignore = "soak"]
fn a_nested_acquire_that_arrives_after_the_release_does_not_affect_the_next_holder() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied);
    let lock = client.reentrant_lock(&unique("late"));
    lock.lock().unwrap();
    let gate = delay_requests(&proxied, "renew", 1);
    lock.lock_with(Lease::fixed(SOON.get() * 6)).unwrap();
    lock.unlock().unwrap();
    lock.unlock().unwrap();
    let short = Lease::fixed(LEASE.get());
    let rival = proxied.rival().reentrant_lock(lock.name());
    assert!(rival.try_lock(Duration::ZERO, short).unwrap());
    let mut hold = RenewedHold::of(&proxied, &rival);
    release_delayed(&gate);
    hold.assert_valid();
    let left = proxied.view().time_to_live(lock.name());
    assert!(left <= LEASE.get(), "{left:?}");
    rival.unlock().unwrap();
    assert_eq!(proxied.view().count(lock.name()), 0);
}

/// A delayed renewal whose hold is unlocked meanwhile.
fn a_late_renewal(proxied: &ProxiedServer, lock: &ReentrantLock) -> Gate {
    let gate = delay_requests(proxied, "renew", 1);
    lock.lock().unwrap();
    await_delayed(&gate, 1);
    lock.unlock().unwrap();
    gate
}

#[test]
fn a_renewal_that_arrives_after_the_acquire_of_another_client_does_not_affect_its_hold() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied);
    let lock = client.reentrant_lock(&unique("late"));
    let gate = a_late_renewal(&proxied, &lock);
    let rival = proxied.rival().reentrant_lock(lock.name());
    let short = Lease::fixed(LEASE.get());
    assert!(rival.try_lock(Duration::ZERO, short).unwrap());
    let mut hold = RenewedHold::of(&proxied, &rival);
    release_delayed(&gate);
    hold.assert_valid();
    let left = proxied.view().time_to_live(lock.name());
    assert!(left <= LEASE.get(), "{left:?}");
    rival.unlock().unwrap();
    assert_eq!(proxied.view().count(lock.name()), 0);
}

#[test]
#[ignore = "soak"]
fn a_renewal_that_arrives_after_the_next_acquire_of_its_thread_does_not_extend_the_lease() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied);
    let lock = client.reentrant_lock(&unique("late"));
    let gate = a_late_renewal(&proxied, &lock);
    let short = Lease::fixed(LEASE.get());
    assert!(lock.try_lock(Duration::ZERO, short).unwrap());
    let mut hold = RenewedHold::of(&proxied, &lock);
    release_delayed(&gate);
    hold.assert_valid();
    let left = proxied.view().time_to_live(lock.name());
    assert!(left <= LEASE.get(), "{left:?}");
    lock.unlock().unwrap();
}

/// Another thread sent it, and gave up before the holder unlocked.
#[test]
#[ignore = "soak"]
fn an_extend_of_another_thread_that_arrives_after_the_next_acquire_does_not_extend_the_lease() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied);
    let lock = client.reentrant_lock(&unique("late"));
    let guard = lock.acquire().unwrap();
    let gate = delay_requests(&proxied, "renew", usize::MAX);
    let result = on_another_thread(|| guard.extend(SOON.get() * 6));
    assert!(is_unavailable(&result), "{result:?}");
    await_delayed(&gate, 1);
    proxied.proxy.clear_rules();
    guard.unlock().unwrap();
    let short = Lease::fixed(LEASE.get());
    assert!(lock.try_lock(Duration::ZERO, short).unwrap());
    let mut hold = RenewedHold::of(&proxied, &lock);
    release_delayed(&gate);
    hold.assert_valid();
    let left = proxied.view().time_to_live(lock.name());
    assert!(left <= LEASE.get(), "{left:?}");
    lock.unlock().unwrap();
}

/// Redis executes the request late, so the lease outlasts the call. No other client has the lock.
#[test]
fn a_try_lock_whose_only_grant_arrived_too_late_is_not_refused() {
    let proxied = ProxiedServer::new();
    let client = proxied.builder(SOON.get()).build().unwrap();
    let lock = client.reentrant_lock(&unique("late"));
    let lease = LEASE.get();
    let (late, mut is_first) = (lease + SLIP.get(), true);
    proxied.proxy.on_request(move |request| match () {
        () if request.runs("release") => Fault::HalfRequest,
        () if request.runs("acquire") && std::mem::take(&mut is_first) => Fault::Delay(late),
        () => Fault::Pass,
    });
    // The first reply arrives before the end of the wait, and the second one after it.
    let result = lock.try_lock(late + lease / 2, Lease::fixed(lease));
    let Err(error @ Error::Unavailable { .. }) = &result else {
        panic!("{result:?}");
    };
    assert!(error.to_string().contains("after the lease"), "{error}");
}
