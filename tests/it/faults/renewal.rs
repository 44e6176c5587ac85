//! Renewals: a problem with one lock does not affect the others, and the load of the callers does
//! not affect the watchdog.

use super::deployment::Deployment;
use crate::support::outcome::assert_lost;
use crate::support::prelude::*;

const MANY: usize = 1_000;
const OTHER_OWNER: &str = "b4a9e8a4-0000-4000-8000-000000000000:7";

fn hold(client: &LockClient, names: &[String]) -> Vec<LockGuard> {
    let locks = names.iter().map(|name| client.reentrant_lock(name));
    locks
        .map(|lock| lock.acquire().expect("it is free"))
        .collect()
}

fn names(what: &str, number: usize) -> Vec<String> {
    (0..number).map(|_| unique(what)).collect()
}

/// The shortest time to live of these keys. All of them must exist.
fn shortest_left(redis: &mut Connection, keys: &[String]) -> Duration {
    let mut pipeline = redis::pipe();
    for key in keys {
        pipeline.cmd("PTTL").arg(key);
    }
    let left: Vec<i64> = pipeline.query(redis).expect("the server replies");
    let shortest = left.into_iter().min().expect("there are keys");
    Duration::from_millis(u64::try_from(shortest).expect("all are there, and expire"))
}

everywhere! {
    of_a_thousand_locks_three_lost_ones_are_reported_and_all_others_are_renewed;
}

fn of_a_thousand_locks_three_lost_ones_are_reported_and_all_others_are_renewed(
    deployment: &Deployment,
) {
    let lease = LEASE.get() * 2;
    let client = deployment.builder().watchdog_lease(lease).build().unwrap();
    let mut names = names("many", MANY);
    let mut guards = hold(&client, &names);
    throughout(lease, "all are held", || {
        guards.iter().all(|guard| guard.check().is_ok())
    });

    let start = Instant::now();
    deployment.ask::<()>("DEL", &names[7]);
    let name = &names[500];
    deployment
        .server_of(name)
        .run(&format!("SET {name} another"));
    let name = &names[993];
    let mut takes = redis::pipe();
    takes
        .atomic()
        .del(name)
        .hset(name, OTHER_OWNER, 1)
        .pexpire(name, 60_000);
    let mut redis = deployment.server_of(name).connection();
    takes.exec(&mut redis).expect("the server replies");
    let expected = [
        (993, LostReason::Taken),
        (500, LostReason::Taken),
        (7, LostReason::Deleted),
    ];
    let lost: Vec<_> = expected
        .map(|(at, reason)| (guards.remove(at), names.remove(at), reason))
        .into();
    for (guard, _, reason) in &lost {
        let bound = (lease * 2 / 3 + SLIP.get()).saturating_sub(start.elapsed());
        assert_eq!(guard.lost().recv_timeout(bound), Ok(*reason));
        assert_lost(&guard.check(), *reason);
    }
    // A lock that is renewed in time has a third of its lease left at that moment.
    let homes = deployment.by_server(&names).into_iter();
    let mut homes: Vec<_> = homes.map(|(s, names)| (s.connection(), names)).collect();
    throughout(lease * 3 / 2, "renewed in time", || {
        thread::sleep(millis(20));
        let is_in_time = |guard: &LockGuard| guard.check().is_ok() && guard.remaining() > lease / 6;
        let mut homes = homes.iter_mut();
        homes.all(|(redis, names)| shortest_left(redis, names) > lease / 6)
            && guards.iter().all(is_in_time)
    });
    let stats = client.stats();
    assert_eq!(stats.lost, 3, "{stats:?}");
    for (guard, name, reason) in lost {
        assert_lost(&guard.unlock(), reason);
        // The lock of another owner stays.
        let left: bool = deployment.ask("EXISTS", &name);
        assert_eq!(left, reason == LostReason::Taken);
    }
    for guard in guards {
        guard.unlock().expect("it is held");
    }
}

/// The connection of the pool waits for a missing reply, for three leases.
#[test]
fn an_exhausted_pool_loses_no_lock() {
    let proxied = ProxiedServer::new();
    let lease = LEASE.get() * 2;
    let delay = lease * 3;
    let builder = proxied.builder(delay * 2).watchdog_lease(lease);
    let builder = builder.connections(1);
    let client = builder.build().expect("the settings are valid");
    let names = names("kept", 50);
    let guards = hold(&client, &names);
    let is_held_up = proxied.fault_once("acquire", &Fault::Delay(delay));
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            let lock = client.reentrant_lock(&unique("busy"));
            // A lease that outlasts the delay.
            let taken = lock.try_lock(delay * 2, Lease::fixed(delay * 2));
            assert!(taken.expect("Redis replies"), "it is free");
            lock.unlock().expect("it is held");
        });
        eventually("the connection to be in use", || {
            is_held_up.load(Ordering::SeqCst)
        });
        let exhausted = scope.spawn(|| {
            let asked = client.reentrant_lock(&names[0]).is_locked();
            asked.map(|_| start.elapsed()).expect("Redis replies")
        });
        let mut redis = proxied.server.connection();
        throughout(delay * 9 / 10, "renewed in time", || {
            thread::sleep(millis(20));
            shortest_left(&mut redis, &names) > lease / 8
                && guards.iter().all(|guard| guard.check().is_ok())
        });
        let exhausted = exhausted.join().expect("the thread panicked, see above");
        assert!(exhausted >= delay, "a connection was free: {exhausted:?}");
    });
    let stats = client.stats();
    assert_eq!(stats.lost, 0, "{stats:?}");
    for guard in guards {
        guard.unlock().expect("it is held");
    }
}
