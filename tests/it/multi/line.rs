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

#[test]
fn a_name_is_reserved_until_the_others_are_free() {
    let server = Server::start();
    let held = ["a", "b"].map(|name| hold(&client(&server.url()), name));
    let (got, order) = unbounded();
    thread::scope(|scope| {
        let both = client(&server.url()).multi_lock(["a", "b"]);
        wait_for(scope, both, &got, "both");
        for name in ["a", "b"] {
            eventually("it to wait", || is_waiting(&server, name, 1));
            let one = client(&server.url()).reentrant_lock(name);
            wait_for(scope, one, &got, "one");
            eventually("both to wait", || is_waiting(&server, name, 2));
        }
        // What is released is reserved for so long.
        thread::sleep(SLIP.get());
        held.iter().for_each(|held| held.unlock().unwrap());
        let order: Vec<_> = order.iter().take(3).collect();
        assert_eq!(order, ["both", "one", "one"]);
    });
    eventually("no lock and no line", || server.size() == 0);
}

/// Reservations have a length of their own, so these times are not scaled.
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
    assert!(passed <= TURNS * 4, "{passed} holds while it waited");
}

/// By its time, or by an interrupt.
#[test]
fn what_is_reserved_for_a_client_that_gives_up_is_free_at_once() {
    let server = Server::start();
    for is_interrupted in [false, true] {
        let [a, b] = ["a", "b"].map(|name| hold(&client(&server.url()), name));
        let (got, order) = unbounded();
        let interrupt = Interrupt::new();
        thread::scope(|scope| {
            let both = client(&server.url()).multi_lock(["a", "b"]);
            let interrupt = &interrupt;
            let waiting_for_both = scope.spawn(move || match is_interrupted {
                true => both.lock_interruptibly(Lease::RENEWED, interrupt),
                false => both.try_lock(MS * 400, Lease::RENEWED).map(drop),
            });
            eventually("it to wait", || is_waiting(&server, "a", 1));
            let one = client(&server.url()).reentrant_lock("a");
            wait_for(scope, one, &got, "one");
            eventually("both to wait", || is_waiting(&server, "a", 2));
            thread::sleep(MS * 200);
            a.unlock().unwrap();
            if is_interrupted {
                interrupt.interrupt();
            }
            let result = waiting_for_both.join().unwrap();
            let is_expected = matches!(result, Err(Error::Interrupted { .. }));
            assert_eq!(is_expected, is_interrupted, "{result:?}");
            assert!(waiting(&server, "a") <= 1 && waiting(&server, "b") == 0);
            assert_eq!(order.recv_timeout(SLIP.get()), Ok("one"));
        });
        b.unlock().unwrap();
    }
}

/// A thread waits for both names, and has left one of them to another thread of its client. It gives
/// up, by its time or by an interrupt.
#[test]
fn a_thread_that_gives_up_leaves_no_line_in_which_another_one_of_its_client_waits() {
    for is_interrupted in [false, true] {
        let server = Server::start();
        let [a, b] = ["a", "b"].map(|name| hold(&client(&server.url()), name));
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
                false => both.try_lock(MS * 2500, Lease::RENEWED).map(drop),
            });
            eventually("it to wait", || waiting(&server, "b") == 13);
            // It keeps the other name for a second.
            thread::sleep(MS * 1200);
            wait_for(scope, ours.reentrant_lock("b"), &got, "ours");
            thread::sleep(MS * 300);
            let one = client(&server.url()).reentrant_lock("b");
            wait_for(scope, one, &got, "behind");
            eventually("it to wait", || waiting(&server, "b") == 14);
            if is_interrupted {
                interrupt.interrupt();
            }
            let result = waiting_for_both.join().unwrap();
            let places = (waiting(&server, "a"), waiting(&server, "b"));
            b.unlock().unwrap();
            assert_eq!(result.is_err(), is_interrupted, "{result:?}");
            assert_eq!(places, (0, 14));
            within(MS * 500 + SLIP.get(), "the calls", || {
                let order: Vec<_> = order.iter().take(14).collect();
                assert_eq!(order[12..], ["ours", "behind"]);
            });
        });
        a.unlock().unwrap();
    }
}

#[test]
fn a_name_is_not_kept_from_others_while_another_one_is_held_for_long() {
    let server = Server::start();
    let [a, b] = ["a", "b"].map(|name| hold(&client(&server.url()), name));
    let both = client(&server.url()).multi_lock(["a", "b"]);
    thread::scope(|scope| {
        let waiting_for_both = scope.spawn(|| both.lock());
        eventually("it to wait", || is_waiting(&server, "b", 1));
        a.unlock().unwrap();
        within(SLIP.get(), "the end of the reservation", || {
            eventually("it to leave", || waiting(&server, "a") == 0);
        });
        assert_eq!(waiting(&server, "b"), 1);
        throughout(A_WHILE.get(), "it is free", || {
            a.lock().unwrap();
            a.unlock().unwrap();
            waiting(&server, "a") == 0
        });
        a.lock().unwrap();
        b.unlock().unwrap();
        eventually("it to wait again", || is_waiting(&server, "a", 1));
        a.unlock().unwrap();
        within(SLIP.get(), "all names", || {
            waiting_for_both.join().unwrap().unwrap();
        });
    });
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
