//! Multi-locks whose names are on several servers of a cluster.

use crate::support::prelude::*;

fn client(cluster: &ClusterDeployment) -> LockClient {
    let builder = LockClient::builder_cluster(cluster.urls());
    builder.watchdog_lease(SOON.get() * 2).build().unwrap()
}

/// Some names on each of the three primaries.
fn names(cluster: &ClusterDeployment) -> Vec<String> {
    let names: Vec<String> = (0..20).map(|_| unique("multi")).collect();
    let shards = cluster.shards_of(&names);
    assert!((0..3).all(|shard| shards.contains(&shard)), "{shards:?}");
    names
}

fn counts(cluster: &ClusterDeployment, names: &[String]) -> Vec<u32> {
    let count = |name: &String| {
        let primary = cluster.primary_of(cluster.slot_of(name));
        let counts: Vec<u32> = primary.ask(redis::cmd("HVALS").arg(name));
        counts.into_iter().sum()
    };
    names.iter().map(count).collect()
}

#[test]
fn the_names_of_a_slot_share_their_requests() {
    let cluster = ClusterDeployment::shared();
    let client = client(&cluster);
    let tag = unique("multi");
    let names: Vec<String> = (0..20).map(|at| format!("{{{tag}}}:{at}")).collect();
    let lock = client.multi_lock(&names);
    pair(&lock);
    let mut monitor = Monitor::of(cluster.primary_of(cluster.slot_of(&tag)));
    pair(&lock);
    let lines = monitor.lines().into_iter();
    assert_eq!(lines.filter(|line| line.contains(tag.as_str())).count(), 2);
}

/// Its place is a channel in that slot.
#[test]
fn a_client_that_waits_for_the_names_of_a_slot_is_called_for_each() {
    let cluster = ClusterDeployment::start();
    let tag = unique("waiting");
    let names = ["a", "b"].map(|name| format!("{{{tag}}}:{name}"));
    let primary = cluster.primary_of(cluster.slot_of(&names[0]));
    let line = |name: &str| -> Vec<String> {
        let line = format!("leasehold_line::{name}");
        primary.ask(redis::cmd("ZRANGE").arg(line).arg(0).arg(-1))
    };
    let held = names.each_ref().map(|name| {
        let lock = client(&cluster).reentrant_lock(name);
        lock.lock_with(long()).unwrap();
        lock
    });
    let both = client(&cluster).multi_lock(&names);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| both.lock());
        for (name, held) in names.iter().zip(&held) {
            eventually("it to wait", || line(name).len() == 1);
            // It has asked again after its subscription.
            thread::sleep(SLIP.get());
            held.unlock().unwrap();
        }
        within(SLIP.get(), "all names", || {
            waiting.join().unwrap().unwrap();
        });
    });
    assert!(names.iter().all(|name| line(name).is_empty()));
}

/// A slot that has moved, and one that is moving, with and without its key.
#[test]
fn a_redirected_name_is_acquired_and_released_in_one_call() {
    let cluster = ClusterDeployment::start();
    let client = client(&cluster);
    let names = names(&cluster);
    let lock = client.multi_lock(&names);
    pair(&lock);

    let moved = cluster.slot_of(&names[7]);
    let to = cluster.another_primary(moved);
    cluster.begin_migration(moved, to).end();
    let guard = lock.try_acquire(Duration::ZERO, Lease::RENEWED).unwrap();
    let guard = guard.expect("it is free");
    assert_eq!(counts(&cluster, &names), [1; 20]);

    let slot = cluster.slot_of(&names[3]);
    let migration = cluster.begin_migration(slot, cluster.another_primary(slot));
    lock.lock().unwrap();
    migration.move_keys();
    lock.lock().unwrap();
    guard.extend(SOON.get() * 3).unwrap();
    lock.unlock().unwrap();
    assert!(lock.is_locked().unwrap());
    lock.unlock().unwrap();
    guard.unlock().unwrap();
    assert!(!lock.is_locked().unwrap());
    // Acquired at the target of the move.
    let guard = lock.try_acquire(Duration::ZERO, Lease::RENEWED).unwrap();
    let guard = guard.expect("it is free");
    migration.end();
    assert_eq!(counts(&cluster, &names), [1; 20]);
    guard.unlock().unwrap();
    assert_eq!(counts(&cluster, &names), [0; 20]);
    assert_eq!(client.stats().lost, 0);
}
