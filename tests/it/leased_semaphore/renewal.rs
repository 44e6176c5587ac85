//! The watchdog renews permits, many at once.

use super::view::View;
use super::{counts, semaphore};
use crate::support::prelude::*;

#[test]
fn a_permit_is_renewed_until_its_release() {
    let server = Server::start();
    let name = unique("renewed");
    let semaphore = semaphore(&server, &name, 1);
    let guard = semaphore.acquire().unwrap();
    let mut view = View::of(&server, &name);
    let rival = client(&server.url()).leased_semaphore(&name);
    throughout(LEASE.get() * 4, "it is held", || {
        let left = view.left();
        assert!(!left.is_zero() && left <= LEASE.get(), "{left:?}");
        guard.check().is_ok() && rival.try_acquire_now().unwrap().is_none()
    });
    // A renewal never shortens a lease.
    guard.extend(LEASE.get() * 60).unwrap();
    guard.extend(LEASE.get() * 2).unwrap();
    guard.confirm().unwrap();
    assert!(view.left() > LEASE.get() * 59, "{:?}", view.left());
    assert!(guard.remaining() > LEASE.get() * 50);
    guard.release().unwrap();
    assert_eq!(counts(&semaphore), (1, 1));
    let mut monitor = Monitor::of(&server);
    thread::sleep(LEASE.get());
    assert_eq!(monitor.commands(), [""; 0], "after the release");
}

#[test]
fn a_fixed_lease_ends() {
    let server = Server::start();
    let semaphore = semaphore(&server, &unique("fixed"), 1);
    let lease = LEASE.get() / 2;
    let guard = semaphore.acquire_with(Lease::fixed(lease)).unwrap();
    let next = semaphore.acquire().unwrap();
    assert!(guard.is_lost(), "before another has the permit");
    assert_eq!(guard.lost().recv(), Ok(LostReason::Expired));
    drop(guard);
    next.confirm().unwrap();
    next.release().unwrap();
    assert_eq!(counts(&semaphore), (1, 1));
}

/// 1,000 permits of ten semaphores, and 250 locks, taken in turns.
#[test]
fn many_permits_and_locks_are_renewed_by_few_calls() {
    const PERMITS: u64 = 1_000;
    let server = Server::start();
    let lease = LEASE.get() * 3;
    let builder = builder(&server.url()).watchdog_lease(lease);
    let client: LockClient = builder.build().unwrap();
    let semaphores: Vec<_> = (0..10)
        .map(|at| client.leased_semaphore(&format!("semaphore:{at}")))
        .collect();
    for semaphore in &semaphores {
        semaphore.try_set_permits(100).unwrap();
    }
    let (mut permits, mut locks): (Vec<PermitGuard>, Vec<_>) = Default::default();
    for at in 0..PERMITS as usize {
        permits.push(semaphores[at % 10].acquire().unwrap());
        if at % 4 == 0 {
            let lock = client.reentrant_lock(&format!("lock:{at}"));
            locks.push(lock.acquire().unwrap());
        }
    }
    let before = client.stats();
    let renewals = || client.stats().renewals - before.renewals;
    let per_lease = PERMITS + 250;
    eventually("two rounds of renewals", || renewals() >= 2 * per_lease);
    let calls = client.stats().renewal_calls - before.renewal_calls;
    // Four calls for the permits and one for the locks are enough for a round. They were acquired
    // within some time, so a round may be spread over several passes of the watchdog.
    println!("{calls} calls for {} renewals", renewals());
    assert!(calls <= 60, "{calls} calls for {} renewals", renewals());
    assert!(permits.iter().all(|guard| guard.check().is_ok()));
    let stats = client.stats();
    assert_eq!(
        (stats.lost, stats.renewals_failed, stats.renewals_unknown),
        (0, 0, 0)
    );
    drop((permits, locks));
    for semaphore in &semaphores {
        assert_eq!(counts(semaphore), (100, 100));
    }
}

/// A key of another type among the keys of a batch does not stop the renewal of the others.
#[test]
fn one_bad_key_does_not_stop_the_renewal_of_the_others() {
    let server = Server::start();
    let client = client(&server.url());
    let guards: HashMap<String, PermitGuard> = (0..5)
        .map(|_| {
            let name = unique("batch");
            let semaphore = client.leased_semaphore(&name);
            semaphore.try_set_permits(1).unwrap();
            (name, semaphore.acquire().unwrap())
        })
        .collect();
    let bad = guards.keys().next().unwrap();
    let key = View::of(&server, bad).leases_key();
    server.run(&format!("DEL {key}"));
    server.run(&format!("HSET {key} a 1"));
    let lost = guards[bad].lost();
    assert_eq!(lost.recv_timeout(SOON.get()), Ok(LostReason::Taken));
    throughout(LEASE.get() + SLIP.get(), "the others are held", || {
        let others = guards.iter().filter(|(name, _)| *name != bad);
        others.into_iter().all(|(_, guard)| guard.check().is_ok())
    });
    // The release of the lost permit does not destroy the key.
    drop(guards);
    let kept: u32 = server.ask(redis::cmd("HGET").arg(&key).arg("a"));
    assert_eq!(kept, 1);
}
