//! The commands that waits and notifications cost.

use std::cell::Cell;

use super::{Place, await_waiting};
use crate::support::prelude::*;

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
}
