//! Waiting threads sleep, and wake up only when their wait ends.

use crate::support::prelude::*;

const THREADS: usize = 500;

#[test]
fn threads_behind_a_holder_sleep_until_the_lock_is_free() {
    let server = Server::start();
    let builder = builder(&server.url()).watchdog_lease(SOON.get() * 6);
    // Without a reply they would give up after ten times this.
    let client = builder.command_timeout(millis(500)).build().unwrap();
    let lock = client.reentrant_lock("lock");
    lock.lock().unwrap();
    let (says, tasks) = unbounded();
    thread::scope(|scope| {
        let run = || {
            says.send(Task::current()).unwrap();
            pair(&lock);
        };
        let running: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        let tasks: Vec<Task> = tasks.iter().take(THREADS).collect();
        let waits = || tasks.iter().map(Task::waits).sum::<usize>();
        // At one moment: in two looks in a row, and none has run in between.
        let mut asleep = None;
        eventually("all to sleep", || {
            let before = asleep.take();
            asleep = tasks.iter().all(Task::is_asleep).then(&waits);
            asleep.is_some() && asleep == before
        });
        let before = waits();
        thread::sleep(millis(600));
        let woken = waits() - before;
        lock.unlock().unwrap();
        within(SOON.get() / 2, "the end of all waits", || {
            running.into_iter().for_each(|one| one.join().unwrap());
        });
        // A thread that has not fallen asleep yet counts, too.
        assert!(woken < THREADS / 5, "{woken} wake-ups");
    });
    let stats = client.stats();
    assert_eq!(stats.acquisitions + stats.hand_overs, THREADS as u64 + 1);
}
