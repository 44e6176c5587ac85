//! The cost of a wait, on a server that no other test uses.

use super::Stage;
use super::waiting::is_handed_over;
use crate::support::prelude::*;

pub fn an_uncontended_pair_is_two_commands(stage: &Stage) {
    let lock = stage.lock();
    // Loads the scripts.
    pair(&*lock);
    let mut monitor = Monitor::at(stage.server());
    (0..10).for_each(|_| pair(&*lock));
    assert_eq!(monitor.commands(), ["EVALSHA"; 20]);
}

/// A release wakes the waiter, which sends no more requests than necessary.
pub fn a_wake_up_is_fast_and_needs_few_commands(stage: &Stage) {
    let (ours, theirs) = (stage.lock(), stage.lock());
    // From now on connections, scripts and the subscription exist.
    is_handed_over(stage, &*ours, &*theirs, |lock| lock.lock().unwrap());
    let mut monitor = Monitor::at(stage.server());

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
        throughout(A_WHILE.get(), "the waiter waits", || !waiter.is_finished());
        let released = Instant::now();
        ours.unlock().unwrap();
        let late = waiter.join().unwrap().saturating_duration_since(released);
        assert!(late < SLIP.get(), "woken after {late:?}");
    });
    // The holder: acquire, release. The waiter: one or two attempts, the one that succeeds,
    // release, and perhaps a look at its subscription.
    let sent = monitor.commands();
    assert!(sent.len() <= 6 * stage.parts() as usize, "{sent:?}");
}
