//! Which commands go to which servers of a cluster.

use super::{connections, of_cluster};
use crate::support::prelude::*;
use crate::support::traffic::{calls, reset};

/// Only the primary of the lock gets commands, and the message of a release.
#[test]
fn an_uncontended_pair_is_two_commands() {
    let cluster = ClusterDeployment::start();
    let client = of_cluster(&cluster).build().unwrap();
    let lock = client.reentrant_lock(&unique("pair"));
    pair(&lock);
    cluster.nodes().iter().for_each(reset);
    (0..10).for_each(|_| pair(&lock));
    let primary = cluster.primary_of(cluster.slot_of(lock.name())).port();
    for node in cluster.nodes() {
        let calls = calls(node);
        let expected = |times| (node.port() == primary).then_some(times);
        assert_eq!(calls.get("evalsha").copied(), expected(20));
        assert_eq!(calls.get("spublish").copied(), expected(10));
        for other in ["eval", "publish", "cluster|slots"] {
            assert_eq!(calls.get(other), None, "{other}");
        }
    }
}

fn shard_channels(node: &Server) -> Vec<String> {
    node.ask(redis::cmd("PUBSUB").arg("SHARDCHANNELS"))
}

/// A client subscribes at the lock's primary, while a thread waits and a little longer.
#[test]
fn a_waiter_subscribes_only_at_the_primary_of_the_lock() {
    let cluster = ClusterDeployment::start();
    let holder = of_cluster(&cluster).build().unwrap();
    let waiter = of_cluster(&cluster).build().unwrap();
    let name = unique("channel");
    let lock = holder.reentrant_lock(&name);
    lock.lock_with(long()).unwrap();
    let primary = cluster.primary_of(cluster.slot_of(&name));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let lock = waiter.reentrant_lock(&name);
            assert!(lock.try_lock(SOON.get(), Lease::RENEWED).unwrap());
            lock.unlock().unwrap();
        });
        let channel = format!("redisson_lock__channel:{{{name}}}");
        eventually("the waiter to listen", || {
            let channels = shard_channels(primary);
            channels.len() == 1 && channels[0].starts_with(&channel)
        });
        for node in cluster
            .nodes()
            .iter()
            .filter(|n| n.port() != primary.port())
        {
            assert_eq!(shard_channels(node), [""; 0]);
            assert!(connections(node) <= 2, "one connection read the slots");
        }
        lock.unlock().unwrap();
        waiting.join().unwrap();
    });
    eventually("the subscription to go", || {
        shard_channels(primary).is_empty()
    });
}
