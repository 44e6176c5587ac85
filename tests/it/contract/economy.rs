//! What a wait costs, where nobody else asks the same server.

use std::thread;
use std::time::Instant;

use super::Stage;
use super::waiting::{is_handed_over, long};
use crate::support::timing::{A_WHILE, SLIP, eventually, throughout};
use crate::support::traffic::Monitor;

/// The release is told, and the waiter asks no more often than it must.
pub fn a_wake_up_is_quick_and_cheap(stage: &Stage) {
    let (ours, theirs) = (stage.lock(), stage.lock());
    // Connections, scripts and the subscription are there from now on.
    is_handed_over(stage, &*ours, &*theirs, |lock| lock.lock().unwrap());
    let mut monitor = Monitor::of(stage.server());

    ours.lock_with(long()).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            theirs.lock().unwrap();
            let got = Instant::now();
            theirs.unlock().unwrap();
            got
        });
        let mut tries = monitor.commands().len();
        eventually("the other client to try", || {
            tries += monitor.commands().len();
            tries > stage.parts() as usize
        });
        throughout(A_WHILE.get(), "it waits", || !waiter.is_finished());
        let released = Instant::now();
        ours.unlock().unwrap();
        let late = waiter.join().unwrap().saturating_duration_since(released);
        assert!(late < SLIP.get(), "woken after {late:?}");
    });
    // Ours: acquire, release. Theirs: an attempt or two, the one that succeeds, release; and it may
    // look at its subscription meanwhile.
    let sent = monitor.commands();
    assert!(sent.len() <= 6 * stage.parts() as usize, "{sent:?}");
}
