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
