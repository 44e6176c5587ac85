//! No deadlock, whatever the order of the names.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;
use leasehold::Lease;

use crate::support::child::{self, Process};
use crate::support::process::Task;
use crate::support::server::Server;
use crate::support::timing::{SLIP, SOON, eventually, millis, within};
use crate::support::{assert_matches, client, on_another_thread, pair};

const PROCESSES: usize = 2;
const THREADS: usize = 4;
const TIMES: usize = 25;

/// Two processes of four threads, each with its own order of the names. What the three locks
/// protect is done by one thread at a time.
#[test]
fn threads_and_processes_take_the_names_in_any_order() {
    let server = Server::start();
    within(SOON.get() * 6, "all of them", || {
        let children: Vec<Process> = (0..PROCESSES)
            .map(|process| Process::start("take_in_order", &[&server.url(), &process.to_string()]))
            .collect();
        for child in children {
            child.finish();
        }
    });
    let counted: usize = server.ask(redis::cmd("GET").arg("counter"));
    assert_eq!(counted, PROCESSES * THREADS * TIMES);
    server.delete("counter");
    assert_eq!(server.size(), 0);
}

/// The role of each process.
pub fn take_in_order(arguments: &[&str]) {
    let &[url, process] = arguments else {
        panic!("{arguments:?}")
    };
    let process: usize = process.parse().unwrap();
    let client = client(url);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let client = &client;
            scope.spawn(move || {
                let mut names = ["a", "b", "c"];
                names.rotate_left(thread % 3);
                if process == 1 {
                    names.reverse();
                }
                let lock = client.multi_lock(names);
                let mut redis = redis::Client::open(url).unwrap().get_connection().unwrap();
                for _ in 0..TIMES {
                    let guard = lock.acquire().unwrap();
                    let count: Option<usize> =
                        redis::cmd("GET").arg("counter").query(&mut redis).unwrap();
                    let next = count.unwrap_or(0) + 1;
                    redis::cmd("SET")
                        .arg("counter")
                        .arg(next)
                        .exec(&mut redis)
                        .unwrap();
                    guard.unlock().unwrap();
                }
            });
        }
    });
    child::send_line("done");
}

/// A thread of the client waits for `a` and `b`, and this thread holds `b`.
#[test]
fn a_thread_with_one_of_the_names_gets_the_other_before_a_thread_that_waits_for_both() {
    let server = Server::start();
    let client = client(&server.url());
    let [a, b, c] = ["a", "b", "c"].map(|name| client.reentrant_lock(name));
    let both = client.multi_lock(["a", "b"]);
    let held = b.acquire().unwrap();
    let (says, tasks) = bounded(1);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            says.send(Task::current()).unwrap();
            both.acquire()?.unlock()
        });
        let task = tasks.recv().unwrap();
        eventually("it to wait", || task.is_asleep());
        for _ in 0..3 {
            within(SLIP.get(), "the free name", || {
                let got = a.try_lock(Duration::ZERO, Lease::RENEWED);
                assert_matches!(got, Ok(true));
                a.unlock().unwrap();
            });
        }
        // A thread without any of the names gets it too, or not, at once.
        within(SLIP.get(), "the answer", || {
            on_another_thread(|| {
                if a.try_lock(Duration::ZERO, Lease::RENEWED).unwrap() {
                    a.unlock().unwrap();
                }
            });
        });
        // A thread that holds what this one wants gets it, too.
        let (goes, go) = bounded::<()>(1);
        let (holds, is_held) = bounded(1);
        let (a, c) = (&a, &c);
        let chained = scope.spawn(move || {
            let held = c.acquire()?;
            holds.send(()).unwrap();
            go.recv().unwrap();
            a.acquire()?.unlock()?;
            held.unlock()
        });
        is_held.recv().unwrap();
        goes.send(()).unwrap();
        within(SOON.get(), "all of them", || {
            pair(c);
            chained.join().unwrap().unwrap();
            held.unlock().unwrap();
            waiter.join().unwrap().unwrap();
        });
    });
    assert_eq!(server.size(), 0);
}

/// Two threads hold one of the names at any time, and two hold the other.
#[test]
fn a_thread_gets_several_names_although_each_always_has_a_holder() {
    let server = Server::start();
    let client = client(&server.url());
    let both = client.multi_lock(["a", "b"]);
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        for name in ["a", "b", "a", "b"] {
            let (lock, end) = (client.reentrant_lock(name), &end);
            scope.spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    let guard = lock.acquire().unwrap();
                    thread::sleep(millis(2));
                    guard.unlock().unwrap();
                }
            });
        }
        let got = (0..3).map(|_| both.try_lock(SOON.get(), Lease::RENEWED));
        let got: Vec<_> = got
            .inspect(|got| drop(got.as_ref().map(|_| both.unlock())))
            .collect();
        end.store(true, Ordering::Relaxed);
        assert!(got.iter().all(|got| matches!(got, Ok(true))), "{got:?}");
    });
}
