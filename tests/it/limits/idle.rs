//! Waiting threads sleep, and wake up only when their wait ends.

use std::thread::ScopedJoinHandle;

use crate::support::prelude::*;

fn client(server: &Server, command_timeout: Duration) -> LockClient {
    let builder = builder(&server.url()).watchdog_lease(SOON.get() * 6);
    builder.command_timeout(command_timeout).build().unwrap()
}

/// Runs `wait` on many threads, each of which must sleep for `time` without a wake-up. Then `end`
/// ends their wait.
fn sleep_while_they_wait(
    threads: usize,
    wait: impl Fn() + Sync,
    time: Duration,
    end: impl FnOnce(),
) {
    let (says, tasks) = unbounded();
    thread::scope(|scope| {
        let run = || {
            says.send(Task::current()).unwrap();
            wait();
        };
        let running: Vec<ScopedJoinHandle<'_, ()>> =
            (0..threads).map(|_| scope.spawn(run)).collect();
        let tasks: Vec<Task> = tasks.iter().take(threads).collect();
        let waits = || tasks.iter().map(Task::waits).sum::<usize>();
        // At one moment: in two looks in a row, and none has run in between.
        let mut asleep = None;
        eventually("all to sleep", || {
            let before = asleep.take();
            asleep = tasks.iter().all(Task::is_asleep).then(&waits);
            asleep.is_some() && asleep == before
        });
        let before = waits();
        thread::sleep(time);
        let woken = waits() - before;
        end();
        within(SOON.get() / 2, "the end of all waits", || {
            for thread in running {
                thread.join().unwrap();
            }
        });
        // A thread that has not fallen asleep yet counts, too.
        assert!(woken < threads / 5, "{woken} wake-ups of {threads} threads");
    });
}

#[test]
fn threads_behind_a_holder_sleep_until_the_lock_is_free() {
    let server = Server::start();
    // Without a reply they would give up after ten times this.
    let client = client(&server, millis(500));
    let lock = client.reentrant_lock("lock");
    lock.lock().unwrap();
    let take = || {
        lock.lock().unwrap();
        lock.unlock().unwrap();
    };
    sleep_while_they_wait(500, take, millis(600), || lock.unlock().unwrap());
    let stats = client.stats();
    assert_eq!(stats.acquisitions + stats.hand_overs, 501);
}

/// One thread has sent a request. The others call with a wait of zero, and wait for its reply.
#[test]
fn threads_behind_a_request_sleep_until_its_reply() {
    let server = Server::start();
    // A thread that misses the reply waits this long.
    let client = client(&server, SOON.get());
    let lock = client.reentrant_lock("lock");
    lock.acquire().unwrap().unlock().unwrap();
    server.pause();
    // The first thread keeps the lock.
    let attempt = || {
        lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap();
    };
    sleep_while_they_wait(100, attempt, millis(300), || server.resume());
    assert_eq!(client.stats().acquisitions, 2);
}
