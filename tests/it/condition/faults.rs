//! Lost requests, lost messages, servers that restart, and servers that do not reply.

use super::{Place, Stage, await_waiting, places, waiting};
use crate::support::prelude::*;

/// The same lock of a client behind a proxy, and of one without it.
pub struct Proxied {
    pub proxied: ProxiedServer,
    pub name: String,
    pub place: Place,
    pub other: Place,
}

impl Proxied {
    pub fn new() -> Self {
        Self::with_lease(LEASE.get())
    }

    /// With ten leases, no place ends by its time during the test.
    pub fn with_lease(lease: Duration) -> Self {
        Self::lingering(lease, Duration::ZERO)
    }

    pub fn lingering(lease: Duration, linger: Duration) -> Self {
        let (proxied, name) = (ProxiedServer::new(), unique("condition"));
        let builder = proxied.builder(SLIP.get()).watchdog_lease(lease);
        let ours = builder.linger(linger).build().unwrap();
        Self {
            place: Place::of(&ours, &name),
            other: Place::of(&proxied.rival(), &name),
            proxied,
            name,
        }
    }

    pub fn waiting(&self) -> u32 {
        waiting(&self.proxied.server, &self.name)
    }

    pub fn places(&self) -> u32 {
        places(&self.proxied.server, &self.name)
    }

    #[track_caller]
    pub fn await_waiting(&self, count: u32) {
        await_waiting(&self.proxied.server, &self.name, count);
    }

    #[track_caller]
    pub fn await_no_place(&self) {
        within(LEASE.get(), "the end of the place", || {
            eventually("no place", || self.places() == 0);
        });
    }
}

/// Two threads wait, and one notification is sent, by clients whose requests are lost once.
#[test]
fn one_lost_request_of_each_step_changes_nothing() {
    for script in [
        "condition_wait",
        "release",
        "condition_notify",
        "acquire",
        "condition_end",
    ] {
        for fault in unanswered() {
            let test = Proxied::new();
            let lose = || test.proxied.fault_once(script, &fault);
            let woken = AtomicU32::new(0);
            let wait = |place: &Place| {
                place.wait();
                woken.fetch_add(1, Ordering::SeqCst);
            };
            thread::scope(|scope| {
                let lost = matches!(script, "condition_wait" | "release").then(lose);
                scope.spawn(|| wait(&test.place));
                test.await_waiting(1);
                eventually("the lock is free", || !test.other.lock.is_locked().unwrap());
                scope.spawn(|| wait(&test.other));
                test.await_waiting(2);
                let lost = lost.unwrap_or_else(lose);
                test.place.notify_one();
                eventually("one wakes", || woken.load(Ordering::SeqCst) > 0);
                // A repeated notification may notify the other one, too.
                let is_repeated = script == "condition_notify";
                throughout(A_WHILE.get(), "one waits", || {
                    is_repeated || (woken.load(Ordering::SeqCst), test.waiting()) == (1, 1)
                });
                assert!(lost.load(Ordering::SeqCst), "{script}: no request was sent");
                test.proxied.proxy.clear_rules();
                test.place.notify_one();
            });
            assert_eq!(test.places(), 0, "{fault:?} of {script}");
        }
    }
}

/// The lock stays held, and no place is left.
#[test]
fn a_wait_that_cannot_begin_leaves_the_lock_held() {
    for fault in unanswered() {
        let test = Proxied::new();
        let guard = test.place.lock.acquire().unwrap();
        test.proxied.fault_always("condition_wait", &fault);
        let result = test.place.condition.wait_for(SOON.get());
        assert!(is_unavailable(&result), "{result:?}");
        guard.check().unwrap();
        test.proxied.proxy.clear_rules();
        eventually("no place is left", || test.places() == 0);
        guard.unlock().unwrap();
    }
}

/// Without any message, a waiter learns of its notification from the renewal of its place.
#[test]
fn a_notification_without_messages_arrives_with_a_renewal() {
    let test = Proxied::new();
    test.proxied.proxy.on_message(|_, _| false);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| test.place.wait());
        test.await_waiting(1);
        within(LEASE.get() + SLIP.get(), "the wake-up", || {
            test.other.notify_one();
            waiter.join().unwrap();
        });
    });
}

/// All waiting threads wake up, which is a spurious wake-up.
#[test]
fn waiters_wake_up_when_redis_has_lost_the_keys() {
    let stage = Stage::<2>::new();
    for restart in [false, true] {
        thread::scope(|scope| {
            for number in 0..4 {
                let place = &stage.places[number % 2];
                scope.spawn(|| place.wait());
            }
            stage.await_waiting(4);
            eventually("the lock is free", || {
                !stage.places[0].lock.is_locked().unwrap()
            });
            match restart {
                true => stage.server.restart_empty(),
                false => stage.server.run("FLUSHALL"),
            }
        });
    }
}

/// Its guards are not held any more, and another wait is refused.
#[test]
fn a_thread_that_cannot_acquire_the_lock_again_gets_an_error() {
    let test = Proxied::new();
    let place = &test.place;
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let outer = place.lock.acquire().unwrap();
            place.lock.lock().unwrap();
            let result = place.condition.wait();
            assert!(is_unavailable(&result), "{result:?}");
            assert_error!(outer.check(), NotHeld);
            assert_eq!(place.lock.hold_count(), 0);
            for result in [place.lock.unlock(), place.condition.wait(), outer.unlock()] {
                assert_error!(result, NotHeld);
            }
        });
        test.await_waiting(1);
        let next = scope.spawn(|| test.other.wait());
        test.await_waiting(2);
        test.proxied.fault_always("acquire", &Fault::SwallowRequest);
        test.other.notify_one();
        waiter.join().unwrap();
        // The notification that it could not take goes to the next thread.
        within(LEASE.get() * 2, "the next one", || next.join().unwrap());
        test.proxied.proxy.clear_rules();
        pair(&place.lock);
    });
}
