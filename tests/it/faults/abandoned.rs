//! Locks that their holder abandons without a crash.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Lease, LockClient, LockGuard, LostReason};

use super::in_redis;
use super::proxied_server::ProxiedServer;
use crate::support::outcome::{assert_error, stay_waiting, take_and_release};
use crate::support::proxy::Fault;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SLIP, SOON, eventually, throughout, within};
use crate::support::{builder, client, on_another_thread, unique};

/// A holder with this many renewals is notified when the next renewal would be due.
fn the_end_of_the_last_renewal_is_reported(renewals: u32) {
    let server = Server::start();
    let lease = LEASE.get() * 3;
    let client = abandoned_client(&server.url());
    let name = unique("limit");
    let lock = client.reentrant_lock(&name);
    let start = Instant::now();
    let guard = lock.try_acquire(Duration::ZERO, Lease::renewed_at_most(renewals));
    let guard = guard.expect("Redis replies").expect("it is free");
    let loss = guard.lost().recv_timeout(SOON.get());
    let took = start.elapsed();
    assert_eq!(loss, Ok(LostReason::RenewalLimit));
    let left = in_redis::time_to_live(&server, &name);
    assert!(left >= lease / 6, "notified with only {left:?} left");
    assert_error!(guard.check(), Lost);
    assert_eq!((lock.hold_count(), guard.remaining()), (0, Duration::ZERO));
    // Two thirds of a lease for each renewal, and two thirds until the one that is not sent.
    let due = lease * 2 / 3 * (renewals + 1);
    let slack = lease / 16 * (renewals + 1);
    assert!(
        took + slack + SLIP.get() >= due && took <= due + SLIP.get(),
        "notified after {took:?}"
    );

    // No other client gets the lock before the lease ends, and any client gets it afterwards.
    let taken = on_another_thread(|| {
        let taken = lock.try_acquire(SOON.get(), Lease::RENEWED);
        taken.expect("Redis replies").map(|guard| {
            let late = start.elapsed().saturating_sub(took);
            guard.unlock().map(|()| late)
        })
    });
    let waited = taken.expect("it ran out").expect("it is held");
    assert!(
        waited + SLIP.get() >= left && waited <= left + SLIP.get(),
        "free {waited:?} after {left:?}"
    );
    let stats = client.stats();
    assert_eq!(
        (stats.renewals, stats.lost),
        (renewals.into(), 1),
        "{stats:?}"
    );
    assert_error!(guard.unlock(), Lost);
    take_and_release(&lock);
}

#[test]
#[ignore = "soak"]
fn a_holder_with_two_renewals_is_notified_while_its_last_lease_runs() {
    the_end_of_the_last_renewal_is_reported(2);
}

#[test]
fn a_holder_without_renewals_is_notified_while_its_lease_runs() {
    the_end_of_the_last_renewal_is_reported(0);
}

/// With leases long enough for a busy machine.
fn abandoned_client(url: &str) -> LockClient {
    let builder = builder(url).watchdog_lease(LEASE.get() * 3);
    builder.build().expect("the settings are valid")
}

/// A guard works like a handle: the watchdog renews the lock, and the guard unlocks it. Without a
/// guard and without a handle, no thread can unlock the lock: its lease runs out.
#[test]
fn a_lock_whose_last_handle_is_dropped_ends_with_its_lease_and_a_guard_is_a_handle() {
    let server = Server::start();
    let [guarded, unguarded] = ["guarded", "unguarded"].map(unique);
    let clients = [(); 2].map(|()| abandoned_client(&server.url()));
    let guard = clients[0].reentrant_lock(&guarded).acquire();
    let guard = guard.expect("it is free");
    let lock = clients[1].reentrant_lock(&unguarded);
    lock.lock().expect("it is free");
    lock.lock().expect("it is held by this thread");
    within(SLIP.get(), "the drop of the last handle", || {
        drop((clients, lock));
    });
    assert!(!in_redis::is_free(&server, &unguarded), "its lease runs");
    let left = in_redis::time_to_live(&server, &unguarded);
    within(left + SLIP.get(), "the end of the lease", || {
        eventually("it to be free", || in_redis::is_free(&server, &unguarded));
    });
    throughout(LEASE.get() * 3, "held", || {
        guard.check().is_ok() && !in_redis::is_free(&server, &guarded)
    });
    within(SLIP.get(), "the unlock and the end of the client", || {
        guard.unlock().expect("it is held");
    });
    assert!(in_redis::is_free(&server, &guarded));
    eventually("all connections to be closed", || {
        let list: String = server.ask(redis::cmd("CLIENT").arg("LIST"));
        list.lines().count() <= 1
    });
}

/// Its owner has ended, and no other thread is the owner.
#[test]
fn a_lock_whose_thread_ended_is_renewed_until_a_force_unlock() {
    let server = Server::start();
    let (client, others) = (client(&server.url()), client(&server.url()));
    let name = unique("abandoned");
    let lock = client.reentrant_lock(&name);
    on_another_thread(|| lock.lock().expect("it is free"));
    let owner = in_redis::holders(&server, &name);
    throughout(LEASE.get() * 3 / 2, "held, and renewed", || {
        in_redis::holders(&server, &name) == owner
    });
    assert_eq!(lock.hold_count(), 0);
    assert_error!(lock.unlock(), NotHeld);
    on_another_thread(|| assert_error!(lock.unlock(), NotHeld));
    assert_eq!(in_redis::holders(&server, &name), owner);
    assert_eq!(client.stats().lost, 0);
    thread::scope(|scope| {
        // One thread of this process, and one of another process.
        let takes = |client: &LockClient| {
            let lock = client.reentrant_lock(&name);
            scope.spawn(move || lock.acquire()?.unlock())
        };
        let waiters = [takes(&client), takes(&others)];
        stay_waiting(&waiters);
        within(SLIP.get() * 2, "from the forced unlock to both", || {
            assert!(client.force_unlock(&name).expect("Redis replies"));
            for waiter in waiters {
                waiter.join().expect("no panic").expect("it has the lock");
            }
        });
    });
    assert!(in_redis::is_free(&server, &name));
    assert_eq!(client.stats().lost, 1);
}

/// No call of the thread releases the level of a guard that it forgot.
#[test]
fn a_lock_whose_guard_is_forgotten_is_renewed_until_a_force_unlock() {
    let server = Server::start();
    let (client, others) = (client(&server.url()), client(&server.url()));
    let name = unique("abandoned");
    let lock = client.reentrant_lock(&name);
    std::mem::forget(lock.acquire().expect("it is free"));
    let owner = in_redis::holders(&server, &name);
    assert_error!(lock.unlock(), NotHeld);
    throughout(LEASE.get() * 3 / 2, "held, and renewed", || {
        in_redis::holders(&server, &name) == owner && lock.is_held_by_current_thread()
    });

    assert!(client.force_unlock(&name).expect("Redis replies"));
    let taken = others.reentrant_lock(&name).acquire();
    taken.and_then(LockGuard::unlock).expect("it is free");
    // Another thread of the client acquires the lock, too. This thread still has the lost hold of
    // its guard.
    on_another_thread(|| lock.acquire().and_then(LockGuard::unlock)).expect("it is free");
    assert_error!(lock.lock(), Lost);
    assert_error!(lock.unlock(), NotHeld);
}

/// The watchdog has taken the grant out of its targets, and its release has no reply yet. The lease
/// is much longer than the test.
#[test]
fn a_release_under_way_is_repeated_when_the_client_is_dropped() {
    let redis = ProxiedServer::new();
    let builder = redis.builder(SLIP.get()).linger(A_WHILE.get());
    let client = builder.watchdog_lease(SOON.get() * 6).build();
    let client = client.expect("the settings are valid");
    let name = unique("lingers");
    let is_sent = redis.fault_once("release", &Fault::SwallowRequest);
    let guard = client.reentrant_lock(&name).acquire();
    guard.and_then(LockGuard::unlock).expect("it is free");
    eventually("the release", || is_sent.load(Ordering::SeqCst));
    assert!(!in_redis::is_free(&redis.server, &name));
    // One command timeout for the release that is under way, and one for the last attempt.
    within(SLIP.get() * 3, "the drop of the last handle", || {
        drop(client);
    });
    assert!(in_redis::is_free(&redis.server, &name), "a lease is left");
}
