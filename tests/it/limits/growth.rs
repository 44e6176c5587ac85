//! Memory, threads and connections do not grow with the number of locks and clients that were used.

use crate::support::prelude::*;
use crate::support::process;

const PAIRS: usize = 20_000;

#[test]
fn twenty_thousand_pairs_leave_nothing_behind() {
    let server = Server::start();
    child::run_role("many_pairs", &[&server.url()]);
    assert_eq!(server.ask::<u32>(&redis::cmd("DBSIZE")), 0);
}

/// Every hundredth pair has its own name, and some pairs are contended.
pub fn many_pairs(arguments: &[&str]) {
    let client = client(arguments[0]);
    let other = crate::support::client(arguments[0]);
    let pair = |at: usize| {
        let lock = client.reentrant_lock(&format!("lock:{}", at % 100));
        let guard = lock.acquire().unwrap();
        assert!(guard.lost().is_empty());
        if at.is_multiple_of(1000) {
            let name = lock.name();
            let waits = other.reentrant_lock(name);
            let refused = waits.try_lock(Duration::from_millis(1), Lease::RENEWED);
            assert!(!refused.unwrap());
        }
        guard.unlock().unwrap();
    };
    // The baseline counts all threads, so the subscriber of the waiting client must run before it.
    let held = client.reentrant_lock("held").acquire().unwrap();
    let before = process::threads();
    eventually("the subscriber to run", || {
        let refused = other
            .reentrant_lock("held")
            .try_lock(Duration::from_millis(20), Lease::RENEWED);
        assert!(!refused.unwrap());
        process::threads() > before
    });
    held.unlock().unwrap();
    (0..PAIRS / 10).for_each(pair);
    let (threads, memory) = (process::threads(), process::resident_kilobytes());
    (0..PAIRS).for_each(pair);
    assert!(process::threads() <= threads);
    let grown = process::resident_kilobytes().saturating_sub(memory);
    assert!(grown < 2048, "{grown} kB more after {PAIRS} pairs");
}
