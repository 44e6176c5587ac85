//! The further permissions that Sentinel, Cluster and replicas need: those of docs/permissions.md.

use super::{documented, uses_everything};
use crate::support::prelude::*;
use crate::support::refused;
use crate::support::server::program::is_redis_7;

const IN_A_CLUSTER: [&str; 6] = [
    "+cluster|slots",
    "+pubsub|shardnumsub",
    "+asking",
    "+spublish",
    "+ssubscribe",
    "+sunsubscribe",
];

/// Of queries, with a command whose keys depend on its arguments.
const OF_QUERIES: [&str; 2] = ["+command|info", "+command|getkeys"];

const OF_SENTINELS: [&str; 2] = ["-@all", "+sentinel|get-master-addr-by-name"];

fn and(more: &[&str]) -> Vec<String> {
    let mut rules = documented();
    rules.extend(more.iter().map(|rule| (*rule).to_owned()));
    rules
}

/// A user of this server with these rules, instead of the one before.
fn with_user<R: redis::ToRedisArgs>(server: &Server, rules: R) -> String {
    server.run("ACL LOG RESET");
    server.with_user(rules)
}

/// A user of all nodes with these rules.
fn in_cluster(cluster: &ClusterDeployment, rules: &[String]) -> LockClientBuilder {
    let urls = cluster.nodes().iter().map(|node| with_user(node, rules));
    LockClient::builder_cluster(urls.collect::<Vec<_>>()).watchdog_lease(LEASE.get())
}

fn refused_by<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Vec<String> {
    servers.into_iter().flat_map(refused).collect()
}

/// A user of the master and one of the sentinels with these rules.
fn behind_sentinels(
    deployment: &SentinelDeployment,
    of_sentinels: &[&str],
    of_master: &[String],
) -> LockClientBuilder {
    with_user(deployment.master(), of_master);
    let sentinels = deployment.sentinels().iter();
    let urls: Vec<String> = sentinels.map(|one| with_user(one, of_sentinels)).collect();
    LockClient::builder_sentinel(urls, deployment.master_name())
        .credentials(Some("worker"), "secret")
        .watchdog_lease(LEASE.get())
}

#[test]
fn the_words_are_those_of_the_documentation() {
    let page = proxy::repository().join("docs/permissions.md");
    let text = std::fs::read_to_string(page).unwrap();
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || "`;,.".contains(c))
        .collect();
    let rules = IN_A_CLUSTER.iter().chain(&["+role", "+wait"]);
    for rule in rules.chain(&OF_SENTINELS[1..2]).chain(&OF_QUERIES) {
        assert!(words.contains(rule), "{rule}");
    }
}

/// Also while a slot moves.
#[test]
fn the_rules_for_a_cluster_are_enough() {
    let cluster = ClusterDeployment::start();
    // Before Redis 7, the commands of shard channels are unknown.
    let known = if is_redis_7() { 6 } else { 3 };
    let builder = in_cluster(&cluster, &and(&IN_A_CLUSTER[..known]));
    uses_everything(&builder).unwrap();
    let client = builder.watchdog_lease(SOON.get() * 6).build().unwrap();
    let lock = client.reentrant_lock("moving");
    let guard = lock.acquire().unwrap();
    let slot = cluster.slot_of("moving");
    let migration = cluster.begin_migration(slot, cluster.another_primary(slot));
    migration.move_keys();
    guard.confirm().unwrap();
    migration.end();
    guard.unlock().unwrap();
    assert_eq!(refused_by(cluster.nodes()), [""; 0]);
}

#[test]
fn the_rules_for_queries_in_a_cluster_are_enough() {
    let cluster = ClusterDeployment::start();
    // Before Redis 7, there are no rules for its subcommands.
    let (known, of_queries) = match is_redis_7() {
        true => (6, &OF_QUERIES[..]),
        false => (3, &["+command"][..]),
    };
    let rules = and(&[&IN_A_CLUSTER[..known], of_queries, &["+zunionstore"]].concat());
    let key = "{queried}:key";
    let mut union = redis::pipe();
    union.cmd("ZUNIONSTORE").arg(&[key, "1", key]).ignore();
    let client = in_cluster(&cluster, &rules).build().unwrap();
    let guard = client.reentrant_lock("queried").acquire().unwrap();
    guard.query::<()>(&union).unwrap();
    assert_eq!(refused_by(cluster.nodes()), [""; 0]);
    for rule in of_queries {
        let rules: Vec<String> = rules.iter().filter(|one| one != rule).cloned().collect();
        let client = in_cluster(&cluster, &rules).build().unwrap();
        let guard = client.reentrant_lock(&unique("queried")).acquire().unwrap();
        let key = format!("{{{}}}:key", guard.name());
        let mut union = redis::pipe();
        union.cmd("ZUNIONSTORE").arg(&[&*key, "1", &*key]).ignore();
        let refused = guard.query::<()>(&union);
        assert_matches!(refused, Err(Error::Redis { .. }), "{rule}");
    }
}

#[test]
#[ignore = "soak"]
fn the_rules_for_sentinels_are_enough() {
    let deployment = SentinelDeployment::start();
    let builder = behind_sentinels(&deployment, &OF_SENTINELS, &and(&["+role"]));
    uses_everything(&builder).unwrap();
    let all = deployment.sentinels().iter().chain(deployment.servers());
    assert_eq!(refused_by(all), [""; 0]);

    // A sentinel without permission counts as unusable, which is reported at once.
    let builder = behind_sentinels(&deployment, &OF_SENTINELS[..1], &and(&["+role"]));
    let lock = builder.build().unwrap().reentrant_lock("lock");
    let error = within(millis(2_000), "the refusal", || lock.lock().unwrap_err());
    let Error::Redis { node, .. } = &error else {
        panic!("{error:?}")
    };
    let mut sentinels = deployment.sentinels().iter();
    assert!(sentinels.any(|sentinel| sentinel.address() == *node));
}

#[test]
#[ignore = "soak"]
fn the_rule_for_replicas_is_enough() {
    let deployment = Replicated::start(1);
    let url = with_user(deployment.master(), and(&["+wait"]));
    let builder = builder(&url).min_replicas(1, SOON.get());
    let builder = builder.command_timeout(SOON.get());
    uses_everything(&builder).unwrap();
    assert_eq!(refused(deployment.master()), [""; 0]);
    let url = with_user(deployment.master(), "-wait");
    let lock = crate::support::builder(&url).min_replicas(1, SOON.get());
    let lock = lock.build().unwrap().reentrant_lock("lock");
    let result = on_another_thread(|| lock.try_lock(Duration::ZERO, Lease::RENEWED));
    assert_matches!(result, Err(Error::Redis { .. }));
}
