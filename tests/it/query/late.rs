//! Queries that arrive late. They are executed neither after their hold, nor after a later query.

use leasehold::Result;
use redis::Pipeline;

use super::{add_one, assert_unclear, number};
use crate::support::prelude::*;

/// What a client holds.
enum Held {
    Lock(OwnedGuard),
    Permit(PermitGuard),
}

impl Held {
    fn query(&self, pipeline: &Pipeline) -> Result<()> {
        match self {
            Self::Lock(guard) => guard.query(pipeline),
            Self::Permit(guard) => guard.query(pipeline),
        }
    }

    fn end(self) {
        let ended = match self {
            Self::Lock(guard) => guard.unlock(),
            Self::Permit(guard) => guard.release(),
        };
        ended.expect("it is held");
    }
}

/// Acquires, with a lease that does not end during the test.
type Acquire = fn(&LockClient, &str) -> Held;

fn owned(lock: &dyn Lock) -> Held {
    Held::Lock(lock.acquire_owned(long()).expect("it is free"))
}

const KINDS: [Acquire; 7] = [
    |client, name| owned(&client.reentrant_lock(name)),
    |client, name| owned(&client.fenced_lock(name)),
    |client, name| owned(&client.fair_lock(name)),
    |client, name| owned(&client.read_write_lock(name).read()),
    |client, name| owned(&client.read_write_lock(name).write()),
    |client, name| owned(&client.multi_lock([name, &format!("{name}:too")])),
    |client, name| {
        let semaphore = client.leased_semaphore(name);
        semaphore.try_set_permits(1).expect("a reply");
        Held::Permit(semaphore.acquire_with(long()).expect("it is free"))
    },
];

/// A client for which a query that is held back costs a short time.
fn client_of(proxied: &ProxiedServer) -> LockClient {
    let builder = proxied.builder(SLIP.get()).watchdog_lease(SOON.get());
    builder.build().expect("the settings are valid")
}

/// The query that was held back arrives at the server.
fn deliver(gate: &Gate) {
    assert_eq!(gate.held(), 1);
    gate.open();
    eventually("it to be executed", || gate.passed() > 0);
}

/// A process that is stopped for longer than its lease may have sent such a query before.
#[test]
fn a_query_that_arrives_after_its_hold_is_not_executed() {
    let proxied = ProxiedServer::new();
    for acquire in KINDS {
        let (name, key) = (unique("late"), unique("number"));
        let held = acquire(&client_of(&proxied), &name);
        let gate = proxied.hold_back_once("query");
        assert_unclear(&held.query(&add_one(&key)));
        held.end();
        let next = acquire(&proxied.rival(), &name);
        deliver(&gate);
        assert_eq!(number(&proxied.server, &key), None);
        next.query(&add_one(&key)).expect("it is held");
        assert_eq!(number(&proxied.server, &key), Some(1));
        next.end();
    }
}

#[test]
fn a_query_that_arrives_late_does_not_overtake_a_later_one() {
    let proxied = ProxiedServer::new();
    for acquire in KINDS {
        let (name, key) = (unique("late"), unique("number"));
        let set = |number: u64| redis::pipe().set(&key, number).ignore().to_owned();
        let held = acquire(&client_of(&proxied), &name);
        held.query(&set(1)).expect("it is held");
        let gate = proxied.hold_back_once("query");
        assert_unclear(&held.query(&set(2)));
        held.query(&set(3)).expect("it is held");
        let keys: Vec<String> = proxied
            .server
            .query(&format!("KEYS {{{name}*}}:leasehold:*"));
        let lefts = keys.iter().map(|key| proxied.server.time_to_live(key));
        assert!(lefts.min() > Some(3_600_000), "{keys:?}");
        deliver(&gate);
        assert_eq!(number(&proxied.server, &key), Some(3));
        held.end();
    }
}

/// A thread that gets the lock from another thread of its client has the same owner id in Redis,
/// with which the late query would be executed.
#[test]
fn a_lock_is_not_handed_over_while_a_query_may_arrive() {
    let proxied = ProxiedServer::new();
    let (name, key) = (unique("late"), unique("number"));
    let builder = proxied.builder(SLIP.get()).watchdog_lease(SOON.get() * 6);
    let client = builder.linger(SOON.get()).build().unwrap();
    let lock = client.reentrant_lock(&name);
    let owner = || client.inspect(&name).unwrap().owner;
    let guard = lock.acquire().unwrap();
    let first = owner();
    guard.query::<()>(&add_one(&key)).unwrap();
    guard.unlock().unwrap();
    let guard = lock.acquire().unwrap();
    assert_eq!(owner(), first, "the client lingers");
    let gate = proxied.hold_back_once("query");
    assert_unclear(&guard.query(&add_one(&key)));
    guard.unlock().unwrap();
    assert_eq!(owner(), None);
    let _next = lock.acquire().unwrap();
    deliver(&gate);
    assert_eq!(number(&proxied.server, &key), Some(1));
}

#[test]
fn a_guard_that_is_dropped_while_a_query_may_arrive_is_released() {
    let proxied = ProxiedServer::new();
    let name = unique("late");
    let client = client_of(&proxied);
    let guard = client.reentrant_lock(&name).acquire_owned(long()).unwrap();
    let _gate = proxied.hold_back_once("query");
    assert_unclear(&guard.query(&add_one(&unique("number"))));
    drop(guard);
    eventually("the release", || in_redis::is_free(&proxied.server, &name));
    let stats = client.stats();
    assert_eq!((stats.acquisitions, stats.releases), (1, 1));
}
