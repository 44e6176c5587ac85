//! The number of threads and connections does not grow with the number of failovers.

use super::{client_for_failovers, connections, of_cluster, of_sentinel};
use crate::support::prelude::*;
use crate::support::process;

const FIRST: usize = 2;
const MORE: usize = 3;

/// A thread that a client may start later: that of its subscriber.
const LATE: usize = 1;

/// What a client has open to one server at most: the one connection of its pool, that of the
/// watchdog and that of the subscriber. When it opens each of them depends on what fails during a
/// failover.
///
/// With Sentinel, a demoted master closes the connections of its clients. So there, only what is
/// left behind at the present master counts.
const PER_CLIENT: usize = 3;

#[test]
#[ignore = "soak"]
fn failovers_of_sentinels_leave_nothing_behind() {
    child::run_role("many_failovers", &["sentinel"]);
}

#[test]
#[ignore = "soak"]
fn failovers_of_a_cluster_leave_nothing_behind() {
    child::run_role("many_failovers", &["cluster"]);
}

/// In a child process, so that no threads of other tests are counted.
pub fn many_failovers(arguments: &[&str]) {
    if arguments == ["sentinel"] {
        let deployment = SentinelDeployment::start();
        let (servers, builder) = (deployment.servers(), of_sentinel(&deployment));
        count(servers, 1, &builder, || _ = deployment.fail_over());
    } else {
        let cluster = ClusterDeployment::start();
        let (nodes, builder) = (cluster.nodes(), of_cluster(&cluster));
        count(nodes, nodes.len() / 2, &builder, || {
            _ = cluster.fail_over(0);
        });
    }
}

/// One client holds locks of all shards, and another waits for them repeatedly.
fn count(servers: &[Server], masters: usize, builder: &LockClientBuilder, fail_over: impl Fn()) {
    let client = || client_for_failovers(builder.clone().connections(1));
    let (holder, waiter) = (client(), client());
    let names: Vec<String> = (0..8).map(|_| unique("held")).collect();
    for name in &names {
        let lock = holder.reentrant_lock(name);
        lock.lock_with(Lease::fixed(SOON.get() * 12)).unwrap();
    }
    let renewed = holder.reentrant_lock(&unique("renewed"));
    renewed.lock().unwrap();
    let use_all = || {
        for name in &names {
            let waits = waiter.reentrant_lock(name);
            assert!(!waits.try_lock(A_WHILE.get(), Lease::RENEWED).unwrap());
            pair(&holder.reentrant_lock(name));
        }
        let before = holder.stats().renewals;
        eventually("a renewal", || {
            if !renewed.is_held_by_current_thread() {
                unlock(&renewed);
                renewed.lock().unwrap();
            }
            holder.stats().renewals > before
        });
    };
    let most = 2 * PER_CLIENT * masters;
    let round = |_| {
        fail_over();
        use_all();
    };
    use_all();
    (0..FIRST).for_each(round);
    let threads = process::threads();
    (0..MORE).for_each(round);
    eventually("no more threads than before", || {
        process::threads() <= threads + LATE
    });
    eventually("no more connections than the clients may have", || {
        servers.iter().map(connections).sum::<usize>() <= most
    });
    // Only the renewed lock may be lost, at most once in each failover.
    assert!(holder.stats().lost <= (FIRST + MORE) as u64);
    assert_eq!(waiter.stats().lost, 0);
    for name in &names {
        assert!(holder.reentrant_lock(name).is_held_by_current_thread());
    }
    unlock(&renewed);
}

/// A failover can lose what the old master acknowledged last, such as the renewal of this short
/// lease, or the lock.
fn unlock(renewed: &ReentrantLock) {
    let unlocked = renewed.unlock();
    let is_expected = matches!(unlocked, Ok(()) | Err(Error::Lost { .. }));
    assert!(is_expected, "{unlocked:?}");
}
