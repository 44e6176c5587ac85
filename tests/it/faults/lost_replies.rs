//! Lost replies. The server has executed the request, and the client has to find out.

use leasehold::{Result, RunError};

use super::kinds;
use crate::support::prelude::*;

fn faults() -> impl Iterator<Item = Fault> {
    let lost = [Fault::SwallowReply, Fault::ResetBeforeReply];
    lost.into_iter().chain([proxy_error()])
}

/// Long enough for a busy machine if no reply is lost.
fn timeout() -> Duration {
    SLIP.get()
}

/// A client for which a lost reply costs `timeout`.
fn client(proxied: &ProxiedServer, lease: Duration, timeout: Duration) -> LockClient {
    let builder = proxied.builder(timeout).watchdog_lease(lease);
    builder.build().expect("the settings are valid")
}

/// A lease that no lock of these tests has, so that a nested acquire has to ask Redis for it.
fn longer() -> Lease {
    Lease::fixed(LEASE.get() * 120)
}

/// Each step of a hold with two levels, of which the inner one has a longer lease.
#[test]
fn one_lost_reply_of_each_step_only_delays_it() {
    let proxied = ProxiedServer::new();
    for fault in faults() {
        let client = client(&proxied, LEASE.get(), SLIP.get());
        let lock = client.reentrant_lock(&unique("lost"));
        let step = |script, call: &dyn Fn() -> Result<()>| {
            let lost = proxied.fault_once(script, &fault);
            call().unwrap_or_else(|error| panic!("{fault:?} of {script}: {error}"));
            assert!(lost.load(Ordering::SeqCst), "{script}: no request was sent");
        };
        step("acquire", &|| lock.lock());
        assert_eq!(
            (
                lock.hold_count(),
                in_redis::count(&proxied.server, lock.name())
            ),
            (1, 1)
        );
        step("renew", &|| lock.lock_with(longer()));
        assert_eq!(lock.hold_count(), 2);
        assert!(in_redis::time_to_live(&proxied.server, lock.name()) > LEASE.get() * 100);
        lock.unlock().unwrap();
        step("release", &|| lock.unlock());
        assert_eq!(
            (
                lock.hold_count(),
                in_redis::count(&proxied.server, lock.name())
            ),
            (0, 0)
        );
    }
}

/// Nothing is left in Redis long before a lease ends. Ends the faults.
fn nothing_is_left(proxied: &ProxiedServer, name: &str) {
    within(LEASE.get(), name, || {
        eventually("no key", || proxied.server.size() == 0);
    });
    proxied.proxy.clear_rules();
}

/// The lock can be acquired again.
#[test]
fn an_acquire_that_is_never_answered_is_compensated() {
    kinds::each(|kind| {
        let proxied = ProxiedServer::new();
        for fault in faults() {
            let client = client(&proxied, LEASE.get() * 60, timeout());
            let lock = (kind.lock)(&client, &unique(kind.name));
            proxied.fault_always(kind.acquire, &fault);
            let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
            assert!(
                is_unavailable(&result),
                "{fault:?}, {}: {result:?}",
                kind.name
            );
            assert_eq!(lock.hold_count(), 0);
            nothing_is_left(&proxied, kind.name);
            pair(&*lock);
        }
    });
}

#[test]
fn a_release_that_is_never_answered_is_executed() {
    kinds::each(|kind| {
        let proxied = ProxiedServer::new();
        for fault in faults() {
            let client = client(&proxied, LEASE.get() * 60, timeout());
            let lock = (kind.lock)(&client, &unique(kind.name));
            lock.lock().unwrap();
            proxied.fault_always(kind.release, &fault);
            let result = lock.unlock();
            assert!(
                is_not_released(&result),
                "{fault:?}, {}: {result:?}",
                kind.name
            );
            assert_eq!(lock.hold_count(), 0);
            nothing_is_left(&proxied, kind.name);
            lock.lock().unwrap();
            let held = in_redis::holders(&proxied.server, lock.name());
            // Releases that are retried in the background do not affect the next hold.
            thread::sleep(LEASE.get());
            assert_eq!(in_redis::holders(&proxied.server, lock.name()), held);
            assert_eq!((lock.hold_count(), held.len()), (1, 1));
            lock.unlock().unwrap();
        }
    });
}

/// Whichever call releases: its error says that the work was done, and is not transient, so a retry
/// does not repeat the work.
#[test]
fn every_release_without_a_reply_says_that_the_work_was_done() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied, LEASE.get() * 60, timeout());
    let acquire = |what| client.reentrant_lock(&unique(what)).acquire().unwrap();
    let [unlocked, kept] = ["lost", "kept"].map(acquire);
    proxied.proxy.on_request(|request| {
        if request.runs("release") || request.runs("leave") {
            Fault::SwallowReply
        } else {
            Fault::Pass
        }
    });
    let released = unlocked.unlock();
    assert!(is_not_released(&released), "{released:?}");
    let left = kept.unlock_after(LEASE.get());
    assert!(is_not_released(&left), "{left:?}");
    let other = client.reentrant_lock(&unique("lost"));
    let run = other.run(Lease::RENEWED, |_| Ok::<_, Error>(7));
    let Err(RunError::Unlock { error, result }) = run else {
        panic!("{run:?}");
    };
    assert_eq!(result.unwrap(), 7);
    assert!(is_not_released(&Err::<(), _>(*error)));
    // The watchdog repeats releases, but not those that keep the lock.
    for (result, is_repeated) in [(&released, true), (&left, false)] {
        let text = result.as_ref().unwrap_err().to_string();
        assert!(text.contains("what has a lease ends within it"), "{text}");
        assert_eq!(
            text.contains("the watchdog still tries"),
            is_repeated,
            "{text}"
        );
    }
}

/// The error of a proxy says nothing of the lock, which is renewed later.
#[test]
fn a_renewal_with_an_error_of_a_proxy_is_no_loss() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied, LEASE.get(), timeout());
    let guard = client.reentrant_lock(&unique("proxied")).acquire().unwrap();
    // Not only once: confirmations run the same script.
    proxied.fault_always("renew", &proxy_error());
    eventually("a renewal without a clear reply", || {
        client.stats().renewals_unknown > 0
    });
    proxied.proxy.clear_rules();
    let before = client.stats().renewals;
    eventually("a renewal", || client.stats().renewals > before);
    assert_eq!(
        (client.stats().lost, client.stats().renewals_failed),
        (0, 0)
    );
    guard.unlock().unwrap();
}

/// Counts these requests, the first of which gets the error of a proxy.
fn fail_first(proxied: &ProxiedServer, command: &'static str) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    proxied.proxy.on_request(move |request| {
        let is_counted = request.command() == command;
        match is_counted && counted.fetch_add(1, Ordering::SeqCst) == 0 {
            true => proxy_error(),
            false => Fault::Pass,
        }
    });
    count
}

#[test]
fn a_log_in_with_an_error_of_a_proxy_is_repeated() {
    let proxied = ProxiedServer::new();
    let url = format!("{}/1", proxied.proxy.url());
    let client = builder(&url).command_timeout(SOON.get()).build().unwrap();
    let log_ins = fail_first(&proxied, "SELECT");
    pair(&client.reentrant_lock(&unique("proxied")));
    assert!(log_ins.load(Ordering::SeqCst) > 1);
}

/// The subscriber connects again soon, and not only after the pause that follows a refusal.
#[test]
fn a_subscription_with_an_error_of_a_proxy_is_repeated_soon() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied, LEASE.get() * 60, timeout());
    let subscriptions = fail_first(&proxied, "SUBSCRIBE");
    let name = unique("proxied");
    let held = proxied.rival().reentrant_lock(&name).acquire().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| pair(&client.reentrant_lock(&name)));
        eventually("a second subscription", || {
            subscriptions.load(Ordering::SeqCst) > 1
        });
        held.unlock().unwrap();
    });
}

/// The lock was granted, but the reply cannot be parsed. Only a release frees the lock before its
/// lease ends.
#[test]
fn an_acquire_whose_reply_cannot_be_parsed_is_compensated() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied, LEASE.get() * 60, SLIP.get() * 4);
    let plain = client.reentrant_lock(&unique("unreadable"));
    let fenced = client.fenced_lock(&unique("unreadable"));
    let locks: [&dyn Lock; 2] = [&plain, &fenced];
    for lock in locks {
        proxied.fault_always("acquire", &Fault::ReplaceReply(b"+GRANTED\r\n".into()));
        assert_error!(lock.lock(), Redis);
        assert!(!lock.is_held_by_current_thread());
        let _soon = LEASE.get() * 5;
        in_redis::await_count(&proxied.server, lock.name(), 0);
        proxied.proxy.clear_rules();
        pair(lock);
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
