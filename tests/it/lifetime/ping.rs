//! The health check.

use crate::support::prelude::*;

fn short(builder: LockClientBuilder) -> LockClient {
    let client = builder
        .command_timeout(timeout())
        .connect_timeout(timeout());
    client.build().unwrap()
}

fn timeout() -> Duration {
    millis(300)
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
fn a_server_that_replies_is_healthy_for_one_command() {
    let server = Server::start();
    let client = short(LockClient::builder(&server.url()));
    client.ping().unwrap();
    let mut monitor = Monitor::of(&server);
    client.ping().unwrap();
    drop(client.reentrant_lock("lock").acquire().unwrap());
    client.ping().unwrap();
    let commands = monitor.commands();
    assert_eq!(commands.iter().filter(|name| *name == "PING").count(), 2);
    // Nothing but the commands of the lock and of its script is sent besides.
    assert!(
        !commands
            .iter()
            .any(|name| name == "AUTH" || name == "HELLO")
    );
}

#[test]
fn a_server_that_is_away_or_hangs_is_unavailable_and_healthy_again_at_once() {
    let server = Server::start();
    let client = short(LockClient::builder(&server.url()));
    client.ping().unwrap();
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
    let primaries = cluster.primaries();
    let mut monitors: Vec<Monitor<'_>> = primaries.iter().map(|one| Monitor::of(one)).collect();
    client.ping().unwrap();
    for monitor in &mut monitors {
        let commands = monitor.commands();
        assert!(commands.iter().any(|name| name == "PING"), "{commands:?}");
    }
    drop(monitors);
    for primary in primaries {
        primary.pause();
        assert_unavailable(&client, &primary.address());
        primary.resume();
        eventually("the primary to reply", || client.ping().is_ok());
    }
}
