//! Queues in which many clients wait.

use super::{ENDS, QUEUE, await_places, place_of, places};
use crate::support::prelude::*;

const MANY: usize = 2_000;

/// Adds places of this library at the end of the queue.
fn fill(server: &Server, count: usize) {
    fill_with(redis::pipe().atomic(), server, count);
}

/// As [`fill`], after these commands.
fn fill_with(pipe: &mut redis::Pipeline, server: &Server, count: usize) {
    let (seconds, _): (u64, u64) = server.ask(&redis::cmd("TIME"));
    let end = seconds * 1000 + 100_000;
    for number in 0..count {
        pipe.rpush(QUEUE, format!("{number}:0")).ignore();
        pipe.zadd(ENDS, format!("{number}:0"), end).ignore();
    }
    pipe.exec(&mut server.connection()).unwrap();
}

/// A lock that is held for longer than the test.
fn hold(client: &LockClient) -> LockGuard {
    let lease = long();
    client.fair_lock("lock").acquire_with(lease).unwrap()
}

fn unconfirmed(server: &Server) -> LockClient {
    let client = builder(&server.url()).confirm_every(Duration::ZERO);
    client.build().unwrap()
}

/// The calls of a client that enters a queue of this length and gives up, and of a release.
fn calls(length: usize) -> HashMap<String, u64> {
    let server = Server::start();
    let (holder, other) = (unconfirmed(&server), client(&server.url()));
    let guard = hold(&holder);
    fill(&server, length);
    traffic::reset(&server);
    let lock = other.fair_lock("lock");
    assert!(!lock.try_lock(millis(50), Lease::RENEWED).unwrap());
    guard.unlock().unwrap();
    traffic::calls(&server)
}

#[test]
fn a_request_costs_the_same_in_a_long_queue() {
    let few = |calls: &HashMap<String, u64>| {
        let scripts = calls["evalsha"] + calls.get("eval").unwrap_or(&0);
        let most = calls.values().max().unwrap();
        assert!(!calls.contains_key("lrange"), "{calls:?}");
        assert!(*most <= 6 * scripts, "{calls:?}");
    };
    few(&calls(2));
    few(&calls(MANY));
}

/// The list was deleted or evicted, and other clients have entered it again.
#[test]
fn a_client_whose_place_is_in_one_key_only_enters_again() {
    let server = Server::start();
    let (holder, other) = (unconfirmed(&server), client(&server.url()));
    let place = place_of(&other);
    let guard = hold(&holder);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| other.fair_lock("lock").lock());
        await_places(&server, 1);
        fill_with(redis::pipe().atomic().del(QUEUE), &server, 1);
        eventually("the place", || places(&server) == ["0:0", &place]);
        server.ask::<()>(redis::cmd("LREM").arg(QUEUE).arg(0).arg("0:0"));
        guard.unlock().unwrap();
        waiting.join().unwrap().unwrap();
    });
}
