//! Requests that arrive late: after their caller has given up, or has continued.

use crate::support::prelude::*;

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
struct RenewedHold<'a> {
    server: &'a Server,
    lock: &'a ReentrantLock,
    holders: Vec<(String, u32)>,
}

impl<'a> RenewedHold<'a> {
    fn of(server: &'a Server, lock: &'a ReentrantLock) -> Self {
        in_redis::await_count(server, lock.name(), lock.hold_count());
        let holders = in_redis::holders(server, lock.name());
        Self {
            server,
            lock,
            holders,
        }
    }

    #[track_caller]
    fn assert_valid(&self) {
        let found = in_redis::holders(self.server, self.lock.name());
        assert_eq!(found, self.holders);
        assert_eq!(self.lock.hold_count(), self.holders[0].1);
    }
}

/// The request was retried, and the retry was answered. `next` holds the lock when the first copy
/// arrives.
fn arrives_after(
    script: &'static str,
    most: usize,
    before: impl FnOnce(&ReentrantLock),
    late: impl FnOnce(&ReentrantLock),
) {
    let proxied = ProxiedServer::new();
    let client = client(&proxied);
    let lock = client.reentrant_lock(&unique("late"));
    before(&lock);
    let gate = delay_requests(&proxied, script, most);
    late(&lock);
    await_delayed(&gate, 1);
    proxied.proxy.clear_rules();
    let guard = within(lease(), "the next lock", || lock.acquire().unwrap());
    lock.lock().unwrap();
    let hold = RenewedHold::of(&proxied.server, &lock);
    release_delayed(&gate);
    hold.assert_valid();
    throughout(lease() * 2, "the hold, in Redis and in the client", || {
        hold.assert_valid();
        true
    });
    lock.unlock().unwrap();
    guard.check().unwrap();
    let stats = client.stats();
    assert!(stats.lost == 0 && stats.renewals > 0, "{stats:?}");
    guard.unlock().unwrap();
    assert_eq!(in_redis::count(&proxied.server, lock.name()), 0);
}

fn acquire(lock: &ReentrantLock) {
    lock.lock().unwrap();
}

#[test]
fn a_release_that_arrives_after_the_next_acquire_changes_nothing() {
    arrives_after("release", 1, acquire, |lock| lock.unlock().unwrap());
}

#[test]
fn an_acquire_that_arrives_late_does_not_affect_the_next_hold() {
    let nothing = |_: &ReentrantLock| ();
    arrives_after("acquire", usize::MAX, nothing, |lock| {
        let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
        assert!(is_unavailable(&result), "{result:?}");
    });
}

/// A renewal of the watchdog arrives when the next hold has a short lease.
#[test]
fn a_renewal_that_arrives_late_does_not_extend_the_lease_of_the_next_hold() {
    for is_rival in [true, false] {
        let proxied = ProxiedServer::new();
        let lock = client(&proxied).reentrant_lock(&unique("late"));
        lock.lock().unwrap();
        let gate = delay_requests(&proxied, "renew", 1);
        await_delayed(&gate, 1);
        lock.unlock().unwrap();
        let next = match is_rival {
            true => proxied.rival().reentrant_lock(lock.name()),
            false => lock,
        };
        let short = Lease::fixed(LEASE.get());
        assert!(next.try_lock(Duration::ZERO, short).unwrap());
        let hold = RenewedHold::of(&proxied.server, &next);
        release_delayed(&gate);
        hold.assert_valid();
        let left = in_redis::time_to_live(&proxied.server, next.name());
        assert!(left <= LEASE.get(), "{left:?}");
        next.unlock().unwrap();
        assert_eq!(in_redis::count(&proxied.server, next.name()), 0);
    }
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
