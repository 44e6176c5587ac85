//! A client that waits for several names has a place in the line of each.

use crate::line::{hold, is_waiting, places};
use crate::support::prelude::*;

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
