//! Permits of a process that is killed.

use super::counts;
use super::view::View;
use crate::support::prelude::*;

/// The permits of a process that lives are renewed; when it is killed, they come back when their
/// leases end.
#[test]
fn a_killed_process_frees_its_permits_within_a_lease() {
    let server = Server::start();
    let name = unique("killed");
    let semaphore = super::semaphore(&server, &name, 2);
    let mut process = Process::start("hold_permits", &[&server.url(), &name]);
    assert_eq!(process.read_line(), "held");
    throughout(LEASE.get() * 2, "held by a process that lives", || {
        semaphore.try_acquire_now().unwrap().is_none()
    });
    // Stopped first, so that the remaining lease is read at the moment of death.
    process.pause();
    let stopped = Instant::now();
    let mut view = View::of(&server, &name);
    let now = view.clock();
    let left = |(_, ends): &(String, f64)| Duration::from_millis((ends - now) as u64);
    let left: Vec<Duration> = view.leases().iter().map(left).collect();
    assert_eq!(left.len(), 2);
    process.kill();
    let guards = [(); 2].map(|()| (semaphore.acquire().unwrap(), stopped.elapsed()));
    for ((guard, took), left) in guards.into_iter().zip(left) {
        assert!(
            took + SLIP.get() >= left,
            "{left:?} was cut short: {took:?}"
        );
        assert!(
            took <= left + SLIP.get(),
            "{took:?}, and {left:?} were left"
        );
        guard.release().unwrap();
    }
    assert_eq!(counts(&semaphore), (2, 2));
}

/// The role: holds two permits.
pub fn hold_permits(arguments: &[&str]) {
    let [url, name] = child::named(arguments);
    let semaphore = client(url).leased_semaphore(name);
    let guards = [(); 2].map(|()| semaphore.acquire().unwrap());
    child::send_line("held");
    child::read_line();
    drop(guards);
}
