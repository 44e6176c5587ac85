//! The health check.

use crate::support::prelude::*;

fn timeout() -> Duration {
    millis(300)
}

fn short(builder: LockClientBuilder) -> LockClient {
    let client = builder.command_timeout(timeout());
    client.connect_timeout(timeout()).build().unwrap()
}

/// Fails within one command timeout, with this node.
#[track_caller]
fn assert_unavailable(client: &LockClient, node: &str) {
    let result = within(timeout() + SLIP.get(), "ping", || client.ping());
    match result {
        Err(Error::Unavailable { node: named, .. }) => assert_eq!(named, node),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_that_is_away_or_hangs_is_unavailable_and_healthy_again_at_once() {
    let server = Server::start();
    let client = short(LockClient::builder(&server.url()));
    client.ping().unwrap();
    let mut monitor = Monitor::of(&server);
    client.ping().unwrap();
    assert_eq!(monitor.commands(), ["PING"]);
    server.pause();
    assert_unavailable(&client, &server.address());
    server.resume();
    client.ping().unwrap();
    server.kill();
    assert_unavailable(&client, &server.address());
    server.start_again();
    client.ping().unwrap();
    // The idle connection is cut, and the check notices no failure.
    server.restart();
    client.ping().unwrap();
}

#[test]
fn every_primary_of_a_cluster_is_checked() {
    let cluster = ClusterDeployment::start();
    let client = short(LockClient::builder_cluster(cluster.urls()));
    client.ping().unwrap();
    for primary in cluster.primaries() {
        primary.pause();
        assert_unavailable(&client, &primary.address());
        primary.resume();
        eventually("the primary to reply", || client.ping().is_ok());
    }
}
