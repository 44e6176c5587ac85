//! Processes that wait on a condition, and are killed.

use super::{Place, await_waiting, places};
use crate::support::prelude::*;

/// The role: waits once, and tells when it has the lock again.
pub fn wait_on_a_condition(arguments: &[&str]) {
    let [url, name] = child::named(arguments);
    let client = client(url);
    Place::of(&client, name).wait();
    child::send_line("woken");
}

fn start(server: &Server, name: &str, before: u32) -> Process {
    let process = Process::start("wait_on_a_condition", &[&server.url(), name]);
    await_waiting(server, name, before + 1);
    process
}

/// It is killed before it has the lock again.
#[test]
fn the_notification_of_a_killed_process_goes_to_the_next_within_seconds() {
    let server = Server::start();
    let name = unique("condition");
    let place = Place::of(&client(&server.url()), &name);
    let mut first = start(&server, &name, 0);
    let mut second = start(&server, &name, 1);
    let third = start(&server, &name, 2);
    let last = start(&server, &name, 3);
    let guard = place.lock.acquire().unwrap();
    // The second one dies before it is notified, the first one after that.
    second.kill();
    place.condition.notify_one().unwrap();
    first.kill();
    guard.unlock().unwrap();
    let start = Instant::now();
    assert_eq!(third.read_line(), "woken");
    // The length of two places, and a third of one until the next renewal of each.
    assert!(start.elapsed() < LEASE.get() * 3 + SLIP.get());
    eventually("one place", || places(&server, &name) == 1);
    throughout(A_WHILE.get() * 3, "the last one waits", || {
        super::waiting(&server, &name) == 1
    });
    place.notify_one();
    assert_eq!(last.read_line(), "woken");
}
