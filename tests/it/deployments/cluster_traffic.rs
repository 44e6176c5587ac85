//! Which commands go to which servers of a cluster.

use std::thread;

use leasehold::Lease;

use super::{connections, of_cluster};
use crate::support::deployment::ClusterDeployment;
use crate::support::server::Server;
use crate::support::timing::{SOON, eventually};
use crate::support::traffic::{Monitor, calls, reset};
use crate::support::{long, pair, unique};

#[test]
fn an_uncontended_pair_is_two_commands() {
    let cluster = ClusterDeployment::start();
    let client = of_cluster(&cluster).build().unwrap();
    let lock = client.reentrant_lock(&unique("pair"));
    pair(&lock);
    let mut monitors: Vec<_> = cluster.nodes().iter().map(Monitor::of).collect();
    for _ in 0..10 {
        lock.lock().unwrap();
        lock.unlock().unwrap();
    }
    let ours = |line: &String| line.contains("\"EVAL") || line.contains("\"CLUSTER\"");
    let mut sent: Vec<Vec<String>> = Vec::new();
    for monitor in &mut monitors {
        let lines = monitor.lines().into_iter().filter(ours);
        sent.push(lines.collect());
    }
    let primary = cluster.primary_of(cluster.slot_of(lock.name())).port();
    for (node, sent) in cluster.nodes().iter().zip(&sent) {
        let expected = if node.port() == primary { 20 } else { 0 };
        assert_eq!(sent.len(), expected, "{sent:?}");
        assert!(sent.iter().all(|line| line.contains("\"EVALSHA\"")));
    }
}

/// The message of a release goes only to the shard of the lock.
#[test]
fn the_message_of_a_release_goes_to_its_shard() {
    let cluster = ClusterDeployment::start();
    let client = of_cluster(&cluster).build().unwrap();
    let lock = client.reentrant_lock(&unique("announced"));
    pair(&lock);
    cluster.nodes().iter().for_each(reset);
    for _ in 0..10 {
        pair(&lock);
    }
    let primary = cluster.primary_of(cluster.slot_of(lock.name())).port();
    for node in cluster.nodes() {
        let calls = calls(node);
        let expected = (node.port() == primary).then_some(10);
        assert_eq!(calls.get("spublish").copied(), expected);
        assert_eq!(calls.get("publish"), None);
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
