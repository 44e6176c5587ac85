//! Hold counts in Redis. The watchdog writes them, with its renewals. One that is late or refused
//! affects no hold.

use crate::support::prelude::*;

/// Why Redis refuses to write a count: the commands that begin it and end it.
const REFUSALS: [[&str; 2]; 2] = [
    ["CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"],
    ["ACL SETUSER default -hset", "ACL SETUSER default +hset"],
];

fn open(gate: &Gate) {
    let held = gate.held();
    gate.open();
    eventually("what was held back to be done", || gate.passed() >= held);
}

/// The watchdog has sent the count after an inner unlock, and it arrives when the same thread holds
/// the lock again.
#[test]
fn a_late_count_does_not_touch_the_next_hold_of_its_thread() {
    for [refuse, permit] in REFUSALS {
        let proxied = ProxiedServer::new();
        let builder = proxied.builder(LEASE.get() / 4);
        let client = builder.watchdog_lease(LEASE.get() * 60).build().unwrap();
        let lock = client.reentrant_lock(&unique("counts"));
        let [outer, inner] = [0, 1].map(|_| lock.acquire().expect("no other client uses it"));
        in_redis::await_count(&proxied.server, lock.name(), 2);
        let gate = Gate::new();
        proxied.fault_always("renew", &Fault::HoldBack(gate.clone()));
        proxied.server.run(refuse);
        inner.unlock().expect("it sends nothing");
        eventually("the count to be sent", || gate.held() > 0);
        proxied.server.run(permit);
        outer.unlock().expect("it is held");
        let next = lock.acquire().expect("it is free");
        let holder = in_redis::holders(&proxied.server, lock.name());
        open(&gate);
        assert_eq!(
            in_redis::holders(&proxied.server, lock.name()),
            holder,
            "{refuse}"
        );
        next.confirm().expect("it is held");
        next.unlock().expect("it is held");
        assert_eq!(
            (
                in_redis::count(&proxied.server, lock.name()),
                client.stats().lost
            ),
            (0, 0)
        );
    }
}

/// A count is information. The lock is renewed without it, and so are those in the same request. An
/// extend writes the count, too. The watchdog takes that into account.
#[test]
fn no_lock_is_lost_if_redis_refuses_to_write_a_count_and_it_is_written_later() {
    for [refuse, permit] in REFUSALS {
        let proxied = ProxiedServer::new();
        let lease = LEASE.get() * 2;
        let client = builder(&proxied.server.url()).watchdog_lease(lease);
        let client = client.build().unwrap();
        let [nested, other] = ["nested", "other"].map(|what| {
            let lock = client.reentrant_lock(&unique(what));
            lock.acquire().expect("it is free")
        });
        let lock = client.reentrant_lock(nested.name());
        proxied.server.run(refuse);
        lock.lock().expect("it sends nothing");
        throughout(lease * 2, refuse, || {
            nested.check().and_then(|()| other.check()).is_ok()
        });
        proxied.server.run(permit);
        in_redis::await_count(&proxied.server, lock.name(), 2);
        // No renewal is due for long.
        nested.extend(LEASE.get() * 120).expect("it is held");
        lock.unlock().expect("it is held");
        in_redis::await_count(&proxied.server, lock.name(), 1);
        nested.unlock().expect("it is held");
        assert_eq!(
            (
                in_redis::count(&proxied.server, lock.name()),
                client.stats().lost
            ),
            (0, 0)
        );
    }
}
