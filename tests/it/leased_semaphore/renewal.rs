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
