//! Many servers: each is looked at.

use super::{at, expect, nothing_is_left, readme_rules, report};
use crate::locks::with_user;
use crate::program::Program;
use crate::support::deployment::{ClusterDeployment, Independent, Replicated, SentinelDeployment};
use crate::support::server::Server;

fn all_of(urls: &[String]) -> Program {
    at(&urls.join(","))
}

#[test]
fn replicas_are_counted_and_name_their_master() {
    let deployment = Replicated::start(1);
    let wanting = |url: &str, replicas, status| {
        let program = at(url).env("LEASEHOLD_MIN_REPLICAS", replicas);
        report(program, &[]).expect(status)
    };
    let words = ["1 online", "requires 2"];
    wanting(&deployment.url(), "2", 1).says("replicas", "failure", &words);
    wanting(&deployment.url(), "1", 0)
        .says("replicas", "ok", &["1 online"])
        .says("rights", "ok", &[]);
    let rules = readme_rules() + " -wait";
    let url = with_user(deployment.master(), "locks", &rules);
    wanting(&url, "1", 1).says("rights", "failure", &["+wait\""]);

    let replica = expect(1, &deployment.replica(0).url(), &[]);
    let words = ["a replica of", &deployment.master().address()];
    replica.says("role", "failure", &words);
    nothing_is_left(deployment.master());
}

#[test]
fn the_master_that_sentinels_name_is_looked_at() {
    let deployment = SentinelDeployment::start();
    let behind = |master| all_of(&deployment.sentinel_urls()).env("LEASEHOLD_SENTINEL", master);
    let name = deployment.master_name();
    let well = report(behind(name), &[]).expect(0);
    let master = deployment.master();
    assert_eq!(well.of("role")[0]["server"], master.address());
    well.says("replicas", "ok", &["2 online"])
        .says("lock", "ok", &[]);
    nothing_is_left(master);

    with_user(master, "locks", &readme_rules());
    let as_user = |status| {
        let program = behind(name).env("LEASEHOLD_USER", "locks");
        report(program.env("LEASEHOLD_PASSWORD", "secret"), &[]).expect(status)
    };
    as_user(1).says("rights", "failure", &["may not use role", "+role"]);
    with_user(master, "locks", "+role");
    as_user(0).says("rights", "ok", &[]);

    let taken_for_a_master = expect(1, &deployment.sentinel_urls()[0], &[]);
    taken_for_a_master.says("role", "failure", &["a sentinel", "--sentinel"]);
    let unknown = report(behind("unknown"), &[]).expect(69);
    unknown.says("reachable", "failure", &["--sentinel"]);
}

#[test]
fn every_primary_of_a_cluster_is_looked_at() {
    let cluster = ClusterDeployment::start();
    let check = |urls: &[String], status| {
        let program = all_of(urls).env("LEASEHOLD_CLUSTER", "true");
        report(program, &[]).expect(status)
    };
    let well = check(&cluster.urls(), 0);
    assert_eq!(well.of("cluster").len(), 3);
    well.says("cluster", "ok", &["16384"])
        .says("rights", "ok", &[])
        .says("replicas", "ok", &["1 online"])
        .says("lock", "ok", &[]);
    cluster.nodes().iter().for_each(nothing_is_left);

    let as_user = |rules: &str, status| {
        let user = |node: &Server| with_user(node, "locks", rules);
        let urls: Vec<String> = cluster.nodes().iter().map(user).collect();
        check(&urls, status)
    };
    let rules = readme_rules() + " +cluster|slots +asking +spublish +sunsubscribe";
    let lacking = as_user(&rules, 1);
    assert_eq!(lacking.of("rights").len(), 3);
    let words = ["<user> +pubsub|shardnumsub +ssubscribe\""];
    lacking.says("rights", "failure", &words);
    // The scripts count the listeners of shard channels.
    as_user("+ssubscribe +pubsub|shardnumsub -pubsub|numsub", 0)
        .says("rights", "ok", &[])
        .has_only("warning", &["looking"]);

    let taken_for_one = expect(1, &cluster.urls()[0], &[]);
    taken_for_one.says("role", "failure", &["--cluster"]);
    let no_cluster = check(&[Server::start().url()], 69);
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
    let reached = limping.of("reachable").into_iter();
    let reached: Vec<&str> = reached.flat_map(|line| line["verdict"].as_str()).collect();
    assert_eq!(reached, ["ok", "failure", "ok"]);
    let text = redlock().arg("doctor").output().expect(1).text();
    let line = format!("FAILURE  {}  reachable", servers.server(1).address());
    assert!(text.contains(&line), "{text}");
}
