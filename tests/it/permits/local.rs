//! Threads of one client that wait for the same permits.

use parking_lot::Mutex;

use super::SEMAPHORES;
use crate::support::prelude::*;

/// Only the first of them sends a request when a message arrives, and they send nothing meanwhile.
#[test]
fn waiting_threads_get_permits_in_the_order_in_which_they_came() {
    const WAITING: usize = 12;
    let server = Server::start();
    for kind in SEMAPHORES {
        let patient = builder(&server.url()).watchdog_lease(SOON.get() * 6);
        let theirs = patient.build().unwrap();
        let steps = kind.of(&client(&server.url()), &unique("order"));
        let waiting = steps.at(&theirs);
        let order = Mutex::new(Vec::new());
        let mut monitor = Monitor::of(&server);
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for number in 0..WAITING {
                let (waiting, order) = (&waiting, &order);
                let (sender, task) = bounded(1);
                threads.push(scope.spawn(move || {
                    sender.send(Task::current()).unwrap();
                    // With a limit, so that no failed test hangs.
                    let permit = waiting.wait_for(SOON.get() * 2).unwrap();
                    order.lock().push(number);
                    permit.expect("a permit").keep();
                }));
                let task = task.recv().unwrap();
                eventually("it waits", || task.is_asleep());
                // The first sleeps also while it waits for its replies.
                throughout(millis(20), "it waits", || !threads[number].is_finished());
            }
            monitor.commands();
            throughout(millis(1500), "all wait", || {
                threads.iter().all(|one| !one.is_finished())
            });
            // The watchdog looks after the line every two seconds.
            let looks = monitor.commands_but_pings();
            let longest = millis(1500) + SLIP.get();
            let most = 2 + longest.as_secs() / 2;
            assert!(looks.len() as u64 <= most, "while they wait: {looks:?}");
            for released in 1..=WAITING - 4 {
                steps.open().unwrap();
                eventually("one permit is taken", || order.lock().len() == released);
            }
            // One message serves several threads.
            steps.add(5).unwrap();
        });
        let mut order = order.into_inner();
        order[WAITING - 4..].sort_unstable();
        assert_eq!(order, (0..WAITING).collect::<Vec<_>>(), "{kind:?}");
        assert_eq!(steps.left().unwrap(), 1, "{kind:?}");
        let commands = monitor.commands();
        let sent = commands.iter().filter(|one| one.starts_with("EVAL"));
        // For each permit: its release, its acquire, the request of the next thread, and perhaps
        // one before the first refusal.
        let sent = sent.count();
        assert!(sent <= 4 * WAITING + 4, "{kind:?}: {sent} requests");
        assert_eq!(theirs.stats().wakeups_by_timeout, 0, "{kind:?}");
    }
}
