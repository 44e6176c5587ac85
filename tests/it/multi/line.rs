//! A client that waits for several names has a place in the line of each.

use std::thread::Scope;

use crossbeam_channel::Sender;

use crate::line::{hold, is_waiting, places};
use crate::support::prelude::*;

/// Starts a thread that acquires the lock, says so and releases it.
fn wait_for<'s>(
    scope: &'s Scope<'s, '_>,
    lock: impl Lock + 's,
    got: &Sender<&'static str>,
    what: &'static str,
) {
    let got = got.clone();
    scope.spawn(move || {
        lock.lock().unwrap();
        got.send(what).unwrap();
        lock.unlock().unwrap();
    });
}

fn waiting(server: &Server, name: &str) -> usize {
    places(server, name).len()
}

/// The call for both returns the other name after a second.
#[test]
fn a_thread_that_holds_a_name_gets_another_one_beside_a_call_for_both() {
    for (own, other) in [("a", "b"), ("b", "a")] {
        for is_of_one_client in [true, false] {
            let server = Server::start();
            let single = client(&server.url());
            let own = single.reentrant_lock(own);
            own.lock().unwrap();
            let before = hold(&client(&server.url()), other);
            let both = match is_of_one_client {
                true => single.multi_lock(["a", "b"]),
                false => client(&server.url()).multi_lock(["a", "b"]),
            };
            thread::scope(|scope| {
                let waiting_for_both = scope.spawn(|| both.acquire().unwrap().unlock());
                let other = single.reentrant_lock(other);
                // Beside a thread of its client, it waits for that in the local queue.
                if other.name() == "a" && !is_of_one_client {
                    eventually("it to wait for the first name", || {
                        is_waiting(&server, "a", 1)
                    });
                    before.unlock().unwrap();
                    eventually("it to hold the first name", || other.is_locked().unwrap());
                } else {
                    before.unlock().unwrap();
                }
                let longest = Duration::from_millis(1_500);
                assert!(other.try_lock(longest, Lease::RENEWED).unwrap(), "{own:?}");
                other.unlock().unwrap();
                own.unlock().unwrap();
                within(SLIP.get(), "both names", || {
                    waiting_for_both.join().unwrap().unwrap();
                });
            });
            eventually("no lock and no line", || server.size() == 0);
        }
    }
}

/// Each name has three clients, and each of their holds lasts for half a second. So the call for
/// both waits for each name for longer than it holds the other one at first.
#[test]
#[ignore = "soak"]
fn a_call_for_both_returns_where_the_wait_for_each_is_long() {
    let server = Server::start();
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        for name in ["a", "a", "a", "b", "b", "b"] {
            let (one, end) = (client(&server.url()).reentrant_lock(name), &end);
            scope.spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    let guard = one.acquire().unwrap();
                    thread::sleep(MS * 500);
                    guard.unlock().unwrap();
                }
            });
        }
        let both = client(&server.url()).multi_lock(["a", "b"]);
        let mut waits: Vec<Duration> = Vec::new();
        for _ in 0..7 {
            let begun = Instant::now();
            both.acquire().unwrap().unlock().unwrap();
            waits.push(begun.elapsed());
        }
        end.store(true, Ordering::Relaxed);
        waits.sort_unstable();
        println!("{waits:?}");
        assert!(
            waits[3] <= MS * 6_000 && waits[6] <= MS * 10_000,
            "{waits:?}"
        );
    });
}

/// The times of the library are not scaled.
const MS: Duration = Duration::from_millis(1);

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Each of the names has a client that always wants it.
#[test]
fn clients_of_one_name_do_not_starve_a_client_of_all() {
    const TURNS: usize = 10;
    let server = Server::start();
    let all = client(&server.url()).multi_lock(NAMES);
    let (holds, end) = (NAMES.map(|_| AtomicUsize::new(0)), AtomicBool::new(false));
    let passed = thread::scope(|scope| {
        for (name, holds) in NAMES.iter().zip(&holds) {
            let (one, end) = (client(&server.url()).reentrant_lock(name), &end);
            scope.spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    let guard = one.acquire().unwrap();
                    holds.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(MS);
                    guard.unlock().unwrap();
                }
            });
        }
        let counts = || holds.each_ref().map(|holds| holds.load(Ordering::Relaxed));
        let mut passed = 0;
        for _ in 0..TURNS {
            let before = counts();
            let guard = all.try_acquire(SOON.get(), Lease::RENEWED).unwrap();
            let most = counts().into_iter().zip(before).map(|(now, old)| now - old);
            passed += most.max().unwrap_or(0);
            drop(guard.expect("its turn"));
        }
        end.store(true, Ordering::Relaxed);
        passed
    });
    // While it waits for one name after the other, the clients of the last one hold that.
    assert!(
        passed <= TURNS * NAMES.len() * 10,
        "{passed} holds while it waited"
    );
}

/// By its time, or by an interrupt.
#[test]
fn a_call_that_gives_up_keeps_no_name_and_no_place() {
    let server = Server::start();
    for is_interrupted in [false, true] {
        let b = hold(&client(&server.url()), "b");
        let interrupt = Interrupt::new();
        thread::scope(|scope| {
            let both = client(&server.url()).multi_lock(["a", "b"]);
            let interrupt = &interrupt;
            let waiting_for_both = scope.spawn(move || match is_interrupted {
                true => both.lock_interruptibly(Lease::RENEWED, interrupt),
                false => both.try_lock(MS * 400, Lease::RENEWED).map(drop),
            });
            eventually("it to wait", || is_waiting(&server, "b", 1));
            if is_interrupted {
                interrupt.interrupt();
            }
            let result = waiting_for_both.join().unwrap();
            let is_expected = matches!(&result, Err(Error::Interrupted { lock }) if lock == "a, b");
            assert_eq!(is_expected, is_interrupted, "{result:?}");
            assert_eq!(waiting(&server, "b"), 0);
            let a = client(&server.url()).reentrant_lock("a");
            assert!(a.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
            a.unlock().unwrap();
        });
        b.unlock().unwrap();
    }
}

/// A thread waits for the second of both names, and another one of its client wants that, too. The
/// first one gives up, by its time or by an interrupt.
#[test]
fn a_thread_that_gives_up_leaves_its_place_to_another_one_of_its_client() {
    for is_interrupted in [false, true] {
        let server = Server::start();
        let b = hold(&client(&server.url()), "b");
        let ours = client(&server.url());
        let (got, order) = unbounded();
        let interrupt = Interrupt::new();
        thread::scope(|scope| {
            for number in 1..=12 {
                let one = client(&server.url()).reentrant_lock("b");
                wait_for(scope, one, &got, "before");
                eventually("it to wait", || waiting(&server, "b") == number);
            }
            let both = ours.multi_lock(["a", "b"]);
            let interrupt = &interrupt;
            let waiting_for_both = scope.spawn(move || match is_interrupted {
                true => both.lock_interruptibly(Lease::RENEWED, interrupt),
                false => both.try_lock(MS * 800, Lease::RENEWED).map(drop),
            });
            eventually("it to wait", || waiting(&server, "b") == 13);
            wait_for(scope, ours.reentrant_lock("b"), &got, "ours");
            // It waits in the local queue.
            thread::sleep(MS * 100);
            let one = client(&server.url()).reentrant_lock("b");
            wait_for(scope, one, &got, "behind");
            eventually("it to wait", || waiting(&server, "b") == 14);
            if is_interrupted {
                interrupt.interrupt();
            }
            let result = waiting_for_both.join().unwrap();
            let places = waiting(&server, "b");
            b.unlock().unwrap();
            assert_eq!(result.is_err(), is_interrupted, "{result:?}");
            assert_eq!(places, 14);
            within(MS * 500 + SLIP.get(), "the calls", || {
                let order: Vec<_> = order.iter().take(14).collect();
                assert_eq!(order[12..], ["ours", "behind"]);
            });
        });
    }
}

/// As before there were lines, it listens for a release of the name that it was refused.
#[test]
fn without_permission_it_waits_outside_of_the_lines() {
    let server = Server::start();
    for denied in ["-zscore", "-zrank", "-zrem", "-zrange"] {
        let url = server.with_user(&["~*", "&*", "+@all", denied]);
        let held = hold(&client(&server.url()), "b");
        let both = client(&url).multi_lock(["a", "b"]);
        thread::scope(|scope| {
            let waiting_for_both = scope.spawn(|| both.acquire().unwrap().unlock());
            eventually(denied, || {
                server.subscribers("redisson_lock__channel:{b}") == 1
            });
            assert!(waiting(&server, "a") == 0 && waiting(&server, "b") == 0);
            thread::sleep(A_WHILE.get());
            held.unlock().unwrap();
            within(SLIP.get(), "the message", || {
                waiting_for_both.join().unwrap().unwrap();
            });
        });
    }
}
