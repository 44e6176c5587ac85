//! Threads of one client that wait for the same semaphore.

use std::thread;
use std::time::Duration;

use super::{now, semaphore};
use crate::support::client;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, SOON, eventually, millis, throughout};
use crate::support::traffic::Monitor;

/// Only the first of them sends a request when a message arrives.
#[test]
fn waiting_threads_get_permits_in_the_order_in_which_they_came() {
    const WAITING: usize = 20;
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let semaphore = semaphore(&ours, 0);
    let waiting = theirs.semaphore(semaphore.name());
    let order = parking_lot::Mutex::new(Vec::new());
    let mut monitor = Monitor::of(&server);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..WAITING {
            let (waiting, order) = (&waiting, &order);
            let (sender, task) = crossbeam_channel::bounded(1);
            threads.push(scope.spawn(move || {
                sender
                    .send(crate::support::process::Task::current())
                    .unwrap();
                // With a limit, so that no failed test hangs.
                assert!(waiting.try_acquire(1, SOON.get() * 2).unwrap());
                order.lock().push(number);
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
        let idle = monitor.commands_but_pings();
        assert_eq!(idle, [""; 0], "while they wait");
        for released in 1..=WAITING {
            semaphore.release(1).unwrap();
            eventually("one permit is taken", || order.lock().len() == released);
        }
    });
    assert_eq!(*order.lock(), (0..WAITING).collect::<Vec<_>>());
    assert_eq!(semaphore.available().unwrap(), 0);
    let sent = monitor
        .commands()
        .iter()
        .filter(|one| one.starts_with("EVAL"))
        .count();
    // For each permit: its release, its acquire, and the request of the next thread.
    assert!(sent <= 3 * WAITING + 4, "{sent} requests");
}

/// One release of many permits is enough for all threads that it suffices for.
#[test]
fn one_message_serves_several_threads() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let semaphore = semaphore(&ours, 0);
    let waiting = theirs.semaphore(semaphore.name());
    thread::scope(|scope| {
        let threads = [(); 8].map(|()| scope.spawn(|| waiting.acquire(1)));
        throughout(A_WHILE.get(), "they wait", || {
            threads.iter().all(|one| !one.is_finished())
        });
        semaphore.release(9).unwrap();
        eventually("all have permits", || {
            threads.iter().all(thread::ScopedJoinHandle::is_finished)
        });
        threads
            .into_iter()
            .for_each(|one| one.join().unwrap().unwrap());
    });
    assert_eq!(semaphore.available().unwrap(), 1);
}

/// One of them sends a request for those that came while others were under way.
#[test]
fn many_threads_send_fewer_requests_than_they_make_calls() {
    const THREADS: usize = 48;
    const PAIRS: usize = 20;
    let server = Server::start();
    let client = client(&server.url());
    let semaphore = semaphore(&client, 48);
    let mut monitor = Monitor::of(&server);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..PAIRS {
                    semaphore.acquire(1).unwrap();
                    semaphore.release(1).unwrap();
                }
            });
        }
    });
    assert_eq!(semaphore.available().unwrap(), 48);
    let commands = monitor.commands();
    let sent = commands.iter().filter(|one| one.starts_with("EVAL"));
    let (sent, calls) = (sent.count(), 2 * THREADS * PAIRS);
    assert!(sent < calls / 2, "{sent} requests for {calls} calls");
}

/// A thread that wants many permits is not passed by threads that want fewer.
#[test]
fn a_thread_that_wants_many_permits_is_not_passed_by_others() {
    let server = Server::start();
    let client = client(&server.url());
    let semaphore = semaphore(&client, 3);
    thread::scope(|scope| {
        let many = scope.spawn(|| semaphore.acquire(5));
        eventually("it waits", || client.stats().wakeups_by_message > 0);
        // A wait of zero takes permits only if enough are left for it.
        assert!(!now(&semaphore, 1));
        assert!(!semaphore.try_acquire(1, A_WHILE.get()).unwrap());
        let few = scope.spawn(|| semaphore.acquire(1));
        throughout(A_WHILE.get(), "both wait", || {
            !many.is_finished() && !few.is_finished()
        });
        semaphore.release(2).unwrap();
        many.join().unwrap().unwrap();
        throughout(A_WHILE.get(), "the other waits", || !few.is_finished());
        semaphore.release(5).unwrap();
        few.join().unwrap().unwrap();
    });
    assert!(now(&semaphore, 4) && !now(&semaphore, 1));
}

/// It does not depend on the first thread, which waits for more.
#[test]
fn a_thread_that_gives_up_lets_the_next_one_try() {
    let server = Server::start();
    let client = client(&server.url());
    let semaphore = semaphore(&client, 1);
    thread::scope(|scope| {
        let many = scope.spawn(|| semaphore.try_acquire(2, A_WHILE.get() * 3));
        eventually("it waits", || client.stats().wakeups_by_message > 0);
        let few = scope.spawn(|| semaphore.try_acquire(1, SOON.get()));
        assert!(!many.join().unwrap().unwrap());
        assert!(few.join().unwrap().unwrap());
    });
    assert_eq!(semaphore.available().unwrap(), 0);
}

/// Without waiting threads, requests do not wait for each other.
#[test]
fn attempts_of_several_threads_do_not_fail_because_of_each_other() {
    let server = Server::start();
    let semaphore = semaphore(&client(&server.url()), 8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert!(semaphore.try_acquire(1, Duration::ZERO).unwrap());
                    semaphore.release(1).unwrap();
                }
            });
        }
    });
    assert_eq!(semaphore.available().unwrap(), 8);
}
