//! One shard hangs or fails over, and the others are not affected.

use super::of_cluster;
use super::workload::client_for_failovers;
use crate::support::prelude::*;

/// Names whose locks are on the shard of slot 0, and names on the other shards.
fn names(cluster: &ClusterDeployment, count: usize) -> (Vec<String>, Vec<String>) {
    let (mut in_shard, mut in_other_shards) = (Vec::new(), Vec::new());
    while in_shard.len() < count || in_other_shards.len() < count {
        let name = unique("name");
        let names = if cluster.slot_of(&name) <= 5_460 {
            &mut in_shard
        } else {
            &mut in_other_shards
        };
        names.push(name);
    }
    in_shard.truncate(count);
    in_other_shards.truncate(count);
    (in_shard, in_other_shards)
}

/// The slowest of many pairs of lock and unlock.
fn slowest_pair(lock: &dyn Lock) -> Duration {
    let pair = |_| {
        let start = Instant::now();
        lock.lock().unwrap();
        lock.unlock().unwrap();
        start.elapsed()
    };
    (0..100).map(pair).max().expect("many")
}

#[test]
#[ignore = "soak"]
fn a_shard_that_hangs_does_not_affect_the_others() {
    const EACH: usize = 20;
    let cluster = ClusterDeployment::start();
    let lease = LEASE.get() * 2;
    let builder = || {
        let builder = of_cluster(&cluster).watchdog_lease(lease);
        builder.command_timeout(SLIP.get() * 8)
    };
    let client = builder().build().unwrap();
    let (in_shard, mut in_other_shards) = names(&cluster, EACH + 1);
    let free = in_other_shards.pop().expect("one more");
    let take = |name: &String| client.reentrant_lock(name).acquire().unwrap();
    let lost: Vec<LockGuard> = in_shard.iter().map(take).collect();
    let kept: Vec<LockGuard> = in_other_shards.iter().map(take).collect();
    let free = client.reentrant_lock(&free);
    slowest_pair(&free);

    // The replica is paused, too, so that no server takes over.
    cluster.replica_of(0).pause();
    cluster.pause_primary(0);
    let before = client.stats();
    throughout(lease * 3, "all others are held", || {
        let slowest = slowest_pair(&free);
        assert!(slowest < SLIP.get() * 4, "a pair took {slowest:?}");
        kept.iter().all(|guard| guard.check().is_ok())
    });
    let renewed = client.stats().renewals - before.renewals;
    assert!(renewed >= 3 * EACH as u64, "{renewed} renewals");
    assert!(
        lost.iter().all(LockGuard::is_lost),
        "their holders were notified"
    );

    // A new client does not wait for the shard that hangs.
    let late = builder().build().unwrap();
    let bound = SLIP.get() * 8 * 2 + SLIP.get() * 4;
    within(bound, "the first lock of a new client", || {
        let guard = late.reentrant_lock(free.name()).acquire().unwrap();
        guard.unlock().unwrap();
    });
    for guard in kept {
        guard.unlock().unwrap();
    }
    cluster.start_killed_again();
    // The hang is over: the orphans of the failed calls are released.
    drop(lost);
    let lock = client.reentrant_lock(&in_shard[0]);
    assert!(lock.try_lock(SOON.get(), Lease::RENEWED).unwrap());
    lock.unlock().unwrap();
}

/// Holds, counts and waiters of all shards move to the new primaries.
#[test]
#[ignore = "soak"]
fn locks_survive_a_failover_of_every_shard() {
    const NAMES: usize = 60;
    let cluster = ClusterDeployment::start();
    let (holder, waiter) = (
        client_for_failovers(of_cluster(&cluster)),
        client_for_failovers(of_cluster(&cluster)),
    );
    let names: Vec<String> = (0..NAMES).map(|_| unique("name")).collect();
    let locks: Vec<_> = names.iter().map(|n| holder.reentrant_lock(n)).collect();
    for lock in &locks {
        lock.lock().unwrap();
        lock.lock().unwrap();
    }
    // One lock of each shard, for longer than the test.
    let handed_over = [0, 6_000, 12_000].map(|slot| of_shard(&cluster, slot));
    let handed_over = handed_over.map(|name| holder.reentrant_lock(&name));
    for lock in &handed_over {
        lock.lock_with(Lease::fixed(SOON.get() * 9)).unwrap();
    }
    thread::scope(|scope| {
        let waiting = handed_over.each_ref().map(|lock| {
            let waiter = &waiter;
            scope.spawn(move || {
                let lock = waiter.reentrant_lock(lock.name());
                assert!(lock.try_lock(SOON.get() * 6, Lease::RENEWED).unwrap());
                lock.unlock().unwrap();
            })
        });
        eventually("three to wait", || waiter.stats().wakeups_by_message >= 3);
        for slot in [0, 6_000, 12_000] {
            let old = cluster.primary_of(slot).port();
            assert_ne!(cluster.fail_over(slot).port(), old);
        }
        for lock in &handed_over {
            lock.unlock().unwrap();
        }
        for one in waiting {
            eventually("a waiter to be woken", || one.is_finished());
            one.join().unwrap();
        }
    });
    let before = holder.stats().renewals;
    eventually("all to be renewed", || {
        holder.stats().renewals >= before + NAMES as u64
    });
    for lock in &locks {
        lock.unlock().unwrap();
        assert_eq!(lock.hold_count(), 1);
        lock.unlock().unwrap();
        assert!(!lock.is_locked().unwrap());
    }
    assert_eq!((holder.stats().lost, waiter.stats().lost), (0, 0));
}

/// A name on the shard of this slot.
fn of_shard(cluster: &ClusterDeployment, slot: u16) -> String {
    let primary = cluster.primary_of(slot).port();
    loop {
        let name = unique("of_shard");
        if cluster.primary_of(cluster.slot_of(&name)).port() == primary {
            return name;
        }
    }
}
