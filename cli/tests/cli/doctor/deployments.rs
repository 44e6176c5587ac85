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
fn replicas_confirm_locks_and_name_their_master() {
    let deployment = Replicated::start(1);
    let wanting = |url: &str, replicas, status| {
        let program = at(url).env("LEASEHOLD_MIN_REPLICAS", replicas);
        report(program, &[]).expect(status)
    };
    wanting(&deployment.url(), "2", 1).says("reentrant", "failure", &["replicas"]);
    wanting(&deployment.url(), "1", 0).allows_every_kind();
    let rules = readme_rules() + " -wait";
    let url = with_user(deployment.master(), "locks", &rules);
    wanting(&url, "1", 1).says("reentrant", "failure", &["+wait;"]);

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
    well.allows_every_kind();
    nothing_is_left(master);

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
    assert_eq!(well.of("role").len(), 3);
    well.allows_every_kind();
    cluster.nodes().iter().for_each(nothing_is_left);

    let as_user = |rules: &str, status| {
        let user = |node: &Server| with_user(node, "locks", rules);
        let urls: Vec<String> = cluster.nodes().iter().map(user).collect();
        check(&urls, status)
    };
    let rules = readme_rules() + " +cluster|slots +asking +spublish +sunsubscribe";
    let words = ["<user> +pubsub|shardnumsub +ssubscribe\""];
    as_user(&rules, 0).says("rights", "warning", &words);
    // The scripts count the listeners of shard channels.
    as_user("+ssubscribe +pubsub|shardnumsub -pubsub|numsub", 0).allows_every_kind();

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
    assert_eq!(well.of("reentrant").len(), 3);
    well.allows_every_kind();
    servers.kill(1);
    let limping = report(redlock(), &[]).expect(1);
    let reached = limping.of("reachable").into_iter();
    let reached: Vec<&str> = reached.flat_map(|line| line["verdict"].as_str()).collect();
    assert_eq!(reached, ["ok", "failure", "ok"]);
    let text = redlock().arg("doctor").output().expect(1).text();
    let line = format!("FAILURE  {}  reachable", servers.server(1).address());
    assert!(text.contains(&line), "{text}");
}
