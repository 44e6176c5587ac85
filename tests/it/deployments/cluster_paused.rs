//! One shard hangs or fails over, and the others are not affected.

use super::{client_for_failovers, of_cluster};
use crate::support::prelude::*;

/// Names whose locks are on the shard of slot 0, and names on the other shards.
fn names(cluster: &ClusterDeployment, count: usize) -> (Vec<String>, Vec<String>) {
    let all = (0..count * 9).map(|_| unique("name"));
    let is_in_shard = |name: &String| cluster.slot_of(name) <= 5_460;
    let (mut in_shard, mut in_other_shards): (Vec<_>, Vec<_>) = all.partition(is_in_shard);
    in_shard.truncate(count);
    in_other_shards.truncate(count);
    assert_eq!(in_shard.len(), count);
    (in_shard, in_other_shards)
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
    pair(&free);

    // The replica is paused, too, so that no server takes over.
    cluster.replica_of(0).pause();
    cluster.pause_primary(0);
    let before = client.stats();
    throughout(lease * 3, "all others are held", || {
        within(SLIP.get() * 4, "a pair", || pair(&free));
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
        pair(&late.reentrant_lock(free.name()));
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

/// The hold, its count and its waiter move to the new primary.
#[test]
#[ignore = "soak"]
fn locks_survive_a_failover() {
    let cluster = ClusterDeployment::start();
    let [holder, waiter] = [(); 2].map(|()| client_for_failovers(of_cluster(&cluster)));
    let (names, _) = names(&cluster, 2);
    let [nested, waited] = [0, 1].map(|at| holder.reentrant_lock(&names[at]));
    nested.lock().unwrap();
    nested.lock().unwrap();
    // For longer than the test.
    waited.lock_with(Lease::fixed(SOON.get() * 9)).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let lock = waiter.reentrant_lock(waited.name());
            assert!(lock.try_lock(SOON.get() * 6, Lease::RENEWED).unwrap());
            lock.unlock().unwrap();
        });
        eventually("one to wait", || waiter.stats().wakeups_by_message > 0);
        let old = cluster.primary_of(0).port();
        assert_ne!(cluster.fail_over(0).port(), old);
        waited.unlock().unwrap();
        eventually("the waiter to be woken", || waiting.is_finished());
        waiting.join().unwrap();
    });
    let before = holder.stats().renewals;
    eventually("a renewal", || holder.stats().renewals > before);
    nested.unlock().unwrap();
    nested.unlock().unwrap();
    assert!(!nested.is_locked().unwrap());
    assert_eq!((holder.stats().lost, waiter.stats().lost), (0, 0));
}
