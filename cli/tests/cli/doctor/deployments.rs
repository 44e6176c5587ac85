//! Many servers: each is looked at.

use super::{nothing_is_left, readme_rules, report, with_long_timeout, with_user};
use crate::program::Program;
use crate::support::deployment::{ClusterDeployment, Independent, Replicated, SentinelDeployment};
use crate::support::server::Server;

fn all_of(urls: &[String]) -> Program {
    with_long_timeout(&urls.join(","))
}

#[test]
fn a_replica_names_its_master() {
    let deployment = Replicated::start(1);
    let report = report(with_long_timeout(&deployment.replica(0).url()), &[]).expect(1);
    let master = deployment.master().address();
    report.says("role", "failure", &["a replica of", &master]);
    nothing_is_left(deployment.master());
}

#[test]
fn replicas_are_counted() {
    let deployment = Replicated::start(1);
    let wanting = |replicas| {
        let program = with_long_timeout(&deployment.url()).env("LEASEHOLD_MIN_REPLICAS", replicas);
        report(program, &[])
    };
    wanting("2")
        .expect(1)
        .says("replicas", "failure", &["1 online", "requires 2"]);
    let enough = wanting("1");
    enough
        .says("replicas", "ok", &["1 online"])
        .says("rights", "ok", &[]);

    let rules = [&readme_rules()[..], &["-wait".into()]].concat();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let url = with_user(deployment.master(), "locks", &rules);
    let program = with_long_timeout(&url).env("LEASEHOLD_MIN_REPLICAS", "1");
    report(program, &[])
        .expect(1)
        .says("rights", "failure", &["+wait\""]);
}

#[test]
fn the_master_that_sentinels_name_is_looked_at() {
    let deployment = SentinelDeployment::start();
    let behind =
        || all_of(&deployment.sentinel_urls()).env("LEASEHOLD_SENTINEL", deployment.master_name());
    let well = report(behind(), &[]).expect(0);
    let master = deployment.master();
    assert_eq!(well.of("role")[0]["server"], master.address());
    well.says("replicas", "ok", &["2 online"])
        .says("lock", "ok", &[]);
    nothing_is_left(master);

    let rules = readme_rules();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    with_user(master, "locks", &rules);
    let as_user = || {
        behind()
            .env("LEASEHOLD_USER", "locks")
            .env("LEASEHOLD_PASSWORD", "secret")
    };
    report(as_user(), &[])
        .expect(1)
        .says("rights", "failure", &["may not use role", "+role"]);
    with_user(master, "locks", &["+role"]);
    report(as_user(), &[]).expect(0).says("rights", "ok", &[]);

    let taken_for_a_master =
        report(with_long_timeout(&deployment.sentinel_urls()[0]), &[]).expect(1);
    taken_for_a_master.says("role", "failure", &["a sentinel", "--sentinel"]);
    let unknown = all_of(&deployment.sentinel_urls()).env("LEASEHOLD_SENTINEL", "unknown");
    report(unknown, &[])
        .expect(69)
        .says("reachable", "failure", &["--sentinel"]);
}

#[test]
fn every_primary_of_a_cluster_is_looked_at() {
    let cluster = ClusterDeployment::start();
    let of_cluster = |urls: &[String]| all_of(urls).env("LEASEHOLD_CLUSTER", "true");
    let well = report(of_cluster(&cluster.urls()), &[]).expect(0);
    assert_eq!(well.of("cluster").len(), 3);
    well.says("cluster", "ok", &["16384"])
        .says("rights", "ok", &[])
        .says("replicas", "ok", &["1 online"])
        .says("lock", "ok", &[]);
    cluster.nodes().iter().for_each(nothing_is_left);

    let rules = readme_rules();
    let words = ["+cluster|slots", "+asking", "+spublish", "+sunsubscribe"];
    let rules: Vec<&str> = rules.iter().map(String::as_str).chain(words).collect();
    let as_user = |rules: &[&str]| {
        let user = |node: &Server| with_user(node, "locks", rules);
        let urls: Vec<String> = cluster.nodes().iter().map(user).collect();
        report(of_cluster(&urls), &[])
    };
    let lacking = as_user(&rules).expect(1);
    assert_eq!(lacking.of("rights").len(), 3);
    lacking.says(
        "rights",
        "failure",
        &["<user> +pubsub|shardnumsub +ssubscribe\""],
    );
    // The scripts count the listeners of shard channels.
    let enough = as_user(&["+ssubscribe", "+pubsub|shardnumsub", "-pubsub|numsub"]).expect(0);
    enough
        .says("rights", "ok", &[])
        .has_only("warning", &["looking"]);

    let taken_for_one = report(with_long_timeout(&cluster.urls()[0]), &[]).expect(1);
    taken_for_one.says("role", "failure", &["--cluster"]);
    let alone = Server::start();
    let no_cluster = report(of_cluster(&[alone.url()]), &[]).expect(69);
    no_cluster.says("reachable", "failure", &["leave out --cluster"]);
}

#[test]
fn every_server_of_a_redlock_is_looked_at() {
    let servers = Independent::start(3);
    let redlock = || all_of(&servers.urls()).env("LEASEHOLD_REDLOCK", "true");
    let well = report(redlock(), &[]).expect(0);
    assert_eq!(well.of("lock").len(), 3);
    well.says("lock", "ok", &[]);
    servers.kill(1);
    let limping = report(redlock(), &[]).expect(1);
    let reached: Vec<&str> = limping
        .of("reachable")
        .iter()
        .filter_map(|line| line["verdict"].as_str())
        .collect();
    assert_eq!(reached, ["ok", "failure", "ok"]);
    let output = redlock().arg("doctor").output().expect(1);
    let line = format!("FAILURE  {}  reachable", servers.server(1).address());
    assert!(output.text().contains(&line), "{output:?}");
}
