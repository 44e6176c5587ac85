//! The commands that waits and notifications cost.

use std::cell::Cell;
use std::thread;
use std::time::Instant;

use super::{Place, Stage, await_waiting};
use crate::support::server::Server;
use crate::support::timing::{LEASE, eventually, within};
use crate::support::traffic::{self, Monitor};
use crate::support::{builder, unique};

#[test]
fn a_wait_costs_two_requests_and_a_notification_one() {
    let server = Server::start();
    // No place is renewed meanwhile.
    let build = || builder(&server.url()).watchdog_lease(LEASE.get() * 30);
    let clients = [build(), build()].map(|builder| builder.build().unwrap());
    let name = unique("condition");
    let [waiter, notifier] = clients.each_ref().map(|client| Place::of(client, &name));
    let looks = Cell::new(0);
    let wait_once = || {
        thread::scope(|scope| {
            let waits = scope.spawn(|| waiter.wait());
            await_waiting(&server, &name, 1);
            eventually("the release", || {
                looks.set(looks.get() + 1);
                !notifier.lock.is_locked().unwrap()
            });
            let guard = notifier.lock.acquire().unwrap();
            notifier.condition.notify_one().unwrap();
            guard.unlock().unwrap();
            waits.join().unwrap();
        });
    };
    // The server learns the scripts, and the client subscribes.
    wait_once();
    let mut monitor = Monitor::of(&server);
    looks.set(0);
    // The message wakes the waiter, long before the renewal of its place.
    within(LEASE.get(), "a wait", wait_once);
    let commands = monitor.commands();
    let scripts = commands.iter().filter(|name| *name == "EVALSHA").count();
    // acquire, wait, release; acquire, notify, release; acquire, end, release. A waiter that is
    // notified before the lock is free subscribes to its releases, and requests it up to two times
    // more. The test asks whether the lock is free.
    let asked = looks.get();
    assert!(
        (9..=11).contains(&(scripts - asked)),
        "{asked}: {commands:?}"
    );
    // A client publishes a message to itself, to end the read of its subscriber.
    let expected = ["EVALSHA", "ZCARD", "SUBSCRIBE", "PUBLISH"];
    let others: Vec<_> = commands
        .iter()
        .filter(|name| !expected.contains(&name.as_str()))
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

/// The watchdog renews the places of all threads of a client by one request.
#[test]
#[ignore = "soak"]
fn waiting_threads_of_a_client_share_their_renewals() {
    const THREADS: u32 = 20;
    let stage = Stage::<1>::new();
    let place = &stage.places[0];
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| place.wait());
        }
        stage.await_waiting(THREADS);
        // From now on they are renewed together.
        thread::sleep(LEASE.get());
        traffic::reset(&stage.server);
        let start = Instant::now();
        thread::sleep(LEASE.get() * 2);
        let sent = traffic::scripts(&stage.server);
        let periods = start.elapsed().as_secs_f64() / (LEASE.get() / 3).as_secs_f64();
        // Places that began at different times are not due together.
        assert!((sent as f64) < periods * 6.0, "{sent} requests");
        place.notify_all();
    });
}
