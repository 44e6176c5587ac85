//! No deadlock, whatever the order of the names.

use crate::support::prelude::*;

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
