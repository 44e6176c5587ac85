//! A server that sends its replies byte by byte, each byte within one timeout of the last.

use std::time::{Duration, Instant};

use leasehold::{Error, Interrupt, Lease, LostReason};

use super::{Broken, client, timeout};
use crate::faults::proxied_server::{ProxiedServer, is_not_released, is_unavailable};
use crate::support::proxy::Fault;
use crate::support::timing::{LEASE, SLIP, SOON, eventually, millis, within};
use crate::support::unique;

fn slow_reply() -> Fault {
    Fault::SplitReply {
        every: 1,
        pause: timeout().mul_f64(0.8),
    }
}

fn always_reply_slowly(proxied: &ProxiedServer, script: &'static str) -> Broken {
    Broken::by(&proxied.proxy, script, slow_reply(), usize::MAX)
}

/// Only the first reply arrives slowly: the call retries on another connection.
#[test]
#[ignore = "soak"]
fn a_call_does_not_wait_for_the_end_of_a_slow_reply() {
    let proxied = ProxiedServer::alone();
    let client = client(&proxied);
    let mut view = proxied.view();
    let lock = client.reentrant_lock(&unique("slow_reply"));
    for step in super::STEPS {
        let what = step.script;
        let broken = Broken::by(&proxied.proxy, what, slow_reply(), 1);
        let start = Instant::now();
        let bound = timeout() + SLIP.get();
        let result = within(bound, what, || (step.call)(&lock));
        result.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(start.elapsed() >= timeout(), "{what} was not delayed");
        assert_eq!(view.count(lock.name()), step.count, "{what}");
        client.inspect(lock.name()).unwrap();
        assert_eq!(broken.count_taken_back(), 1, "{what}");
    }
}

/// All replies arrive slowly: each call ends within its documented time.
#[test]
#[ignore = "soak"]
fn every_call_ends_in_time_while_the_server_replies_slowly() {
    let proxied = ProxiedServer::alone();
    let client = client(&proxied);
    let mut view = proxied.view();
    let lock = client.reentrant_lock(&unique("slow_reply"));
    let (once, slip) = (timeout(), SLIP.get());
    let check = |script, call: &str, bound: Duration, work: &dyn Fn() -> leasehold::Result<()>| {
        let broken = always_reply_slowly(&proxied, script);
        let result = within(bound, call, work);
        assert!(is_unavailable(&result), "{call}: {result:?}");
        // On a busy machine the end of the last request may be late.
        eventually(call, || broken.count_taken_back() > 0);
        proxied.proxy.clear_rules();
    };
    let grace = millis(250);
    check("acquire", "try_lock", once + grace, &|| {
        lock.try_lock(Duration::ZERO, Lease::RENEWED).map(drop)
    });
    check("acquire", "try_acquire", once * 4 + grace, &|| {
        lock.try_acquire(once * 4, Lease::RENEWED).map(drop)
    });
    check("acquire", "lock", once * 10 + slip, &|| lock.lock());
    check("inspect", "inspect", once + slip, &|| {
        client.inspect(lock.name()).map(drop)
    });
    check("inspect", "is_locked", once + slip, &|| {
        lock.is_locked().map(drop)
    });
    check("force_unlock", "force_unlock", once + slip, &|| {
        client.force_unlock(lock.name()).map(drop)
    });
    let guard = lock.acquire().expect("all orphans are released");
    check("renew", "try_lock, nested", once + grace, &|| {
        let longer = Lease::fixed(SOON.get() * 2);
        lock.try_lock(Duration::ZERO, longer).map(drop)
    });
    assert_eq!(lock.hold_count(), 1);
    check("renew", "extend", once + slip, &|| {
        guard.extend(SOON.get() * 4)
    });
    guard.check().unwrap();
    let broken = always_reply_slowly(&proxied, "release");
    within(once + slip, "a guard's drop", || drop(guard));
    assert_eq!(lock.hold_count(), 0);
    view.await_count(0, lock.name(), LEASE.get(), "a guard's drop");
    lock.lock().unwrap();
    let result = within(once * 3 + slip, "unlock", || lock.unlock());
    assert!(is_not_released(&result), "{result:?}");
    assert!(broken.count_taken_back() > 3);
    view.await_count(0, lock.name(), LEASE.get(), "an unlock that failed");
}

#[test]
fn an_interrupt_works_while_the_server_replies_slowly() {
    let proxied = ProxiedServer::new();
    let client = client(&proxied);
    let lock = client.reentrant_lock(&unique("slow_reply"));
    let broken = always_reply_slowly(&proxied, "acquire");
    let interrupt = Interrupt::new();
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("three attempts", || broken.count_taken_back() >= 3);
            interrupt.interrupt();
        });
        lock.lock_interruptibly(Lease::RENEWED, &interrupt)
    });
    assert!(
        matches!(result, Err(Error::Interrupted { .. })),
        "{result:?}"
    );
    proxied
        .view()
        .await_count(0, lock.name(), LEASE.get(), "an interrupted attempt");
}

/// The reply to every second renewal arrives slowly; the next one is in time.
#[test]
#[ignore = "soak"]
fn locks_are_renewed_although_some_replies_are_slow() {
    let proxied = ProxiedServer::new();
    // Two attempts, on a busy machine, fit into a third of the lease.
    let lease = LEASE.get() * 3;
    let builder = proxied.builder(timeout()).watchdog_lease(lease);
    // Only renewals call the script.
    let builder = builder.confirm_every(Duration::ZERO);
    let client = builder.build().unwrap();
    let mut slow = false;
    proxied.proxy.on_request(move |request| {
        if !request.runs("renew") {
            return Fault::Pass;
        }
        slow = !slow;
        if slow { slow_reply() } else { Fault::Pass }
    });
    let guards: Vec<_> = (0..20)
        .map(|_| {
            client
                .reentrant_lock(&unique("slow_reply"))
                .acquire()
                .unwrap()
        })
        .collect();
    let (mut view, start) = (proxied.view(), Instant::now());
    while start.elapsed() < lease * 2 {
        for guard in &guards {
            guard.check().expect("renewed in time");
            assert_eq!(view.count(guard.name()), 1);
        }
        // Other calls do not wait for the watchdog.
        let found = within(timeout() + SLIP.get(), "another call", || {
            client.inspect(guards[0].name())
        });
        assert!(found.is_ok() || is_unavailable(&found), "{found:?}");
    }
    let stats = client.stats();
    assert!(
        stats.renewals >= 40 && stats.renewals_unknown >= 20,
        "{stats:?}"
    );
    for guard in guards {
        guard.unlock().unwrap();
    }
}

/// The replies to all renewals arrive slowly: the holder is notified of the loss.
#[test]
#[ignore = "soak"]
fn the_loss_of_unconfirmed_locks_is_reported() {
    let proxied = ProxiedServer::new();
    let client = proxied.builder(timeout()).build().unwrap();
    let _broken = always_reply_slowly(&proxied, "renew");
    let start = Instant::now();
    let guards: Vec<_> = (0..20)
        .map(|_| {
            client
                .reentrant_lock(&unique("slow_reply"))
                .acquire()
                .unwrap()
        })
        .collect();
    let taken = start.elapsed();
    let mut view = proxied.view();
    for guard in &guards {
        let left = (LEASE.get() + taken + SLIP.get()).saturating_sub(start.elapsed());
        let reason = guard
            .lost()
            .recv_timeout(left)
            .expect("the holder is notified");
        assert_eq!(reason, LostReason::Expired);
        assert!(matches!(guard.check(), Err(Error::Lost { .. })));
        // The server renewed the lock each time, so no other client holds it.
        assert_eq!(view.count(guard.name()), 1);
    }
    within(LEASE.get(), "another lock", || {
        let lock = client.reentrant_lock(&unique("slow_reply"));
        lock.acquire().unwrap().unlock().unwrap();
    });
    for guard in guards {
        let result = within(LEASE.get(), "unlock", || guard.unlock());
        assert!(matches!(result, Err(Error::Lost { .. })), "{result:?}");
    }
    eventually("every lock to be free", || {
        proxied.server.ask::<u32>(&redis::cmd("DBSIZE")) == 0
    });
}
