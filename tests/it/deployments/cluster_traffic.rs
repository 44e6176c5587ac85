//! Which commands go to which servers of a cluster.

use super::of_cluster;
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
