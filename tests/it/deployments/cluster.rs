//! The cluster deployment itself: three primaries and their replicas.

use super::{get, set};
use crate::support::deployment::ClusterDeployment;
use crate::support::server::Server;
use crate::support::unique;

/// The code of the error that a command gets, without its slot and address.
fn error_code(node: &Server, command: &redis::Cmd) -> Option<String> {
    let error = command.exec(&mut node.connection()).err()?;
    error.code().map(str::to_owned)
}

#[test]
#[ignore = "soak"]
fn a_replica_replaces_a_killed_primary() {
    let cluster = ClusterDeployment::start();
    let slot = cluster.slot_of("key");
    let replica = cluster.replica_of(slot);
    let old = cluster.kill_primary(slot);
    let new = cluster.await_failover(slot);
    assert_eq!(new.port(), replica.port());
    new.ask::<()>(&set("key"));

    cluster.start_killed_again();
    assert_eq!(cluster.primary_of(slot).port(), new.port());
    assert_eq!(cluster.replica_of(slot).port(), old.port());
}

#[test]
#[ignore = "soak"]
fn a_replica_replaces_a_paused_primary() {
    let cluster = ClusterDeployment::start();
    let old = cluster.pause_primary(0);
    let new = cluster.await_failover(0);
    assert_ne!(new.port(), old.port());
    old.resume();
    cluster.await_calm();
    assert_eq!(cluster.replica_of(0).port(), old.port());
}

#[test]
#[ignore = "soak"]
fn an_operator_fails_over_without_a_loss() {
    let cluster = ClusterDeployment::start();
    let slot = cluster.slot_of("key");
    let first = cluster.primary_of(slot);
    first.ask::<()>(&set("key"));
    let second = cluster.fail_over(slot);
    let value: Option<String> = second.ask(&get("key"));
    assert_eq!(value.as_deref(), Some("value"));
    assert_eq!(cluster.fail_over(slot).port(), first.port());
}

#[test]
#[ignore = "soak"]
fn a_slot_moves_with_its_keys_step_by_step() {
    let cluster = ClusterDeployment::start();
    let slot = cluster.slot_of("{tag}");
    let from = cluster.primary_of(slot);
    let to = cluster.another_primary(slot);
    let keys: Vec<String> = (0..250).map(|key| format!("{{tag}}{key}")).collect();
    for key in &keys {
        from.ask::<()>(&set(key));
    }

    let migration = cluster.begin_migration(slot, to);
    assert_eq!(error_code(from, &get(&keys[0])), None);
    assert_eq!(error_code(from, &get("{tag}new")).as_deref(), Some("ASK"));
    assert_eq!(error_code(to, &get(&keys[0])).as_deref(), Some("MOVED"));
    migration.move_keys();
    assert_eq!(error_code(from, &get(&keys[0])).as_deref(), Some("ASK"));
    migration.end();

    assert_eq!(cluster.primary_of(slot).port(), to.port());
    assert_eq!(error_code(from, &get(&keys[0])).as_deref(), Some("MOVED"));
    for key in &keys {
        let value: Option<String> = to.ask(&get(key));
        assert_eq!(value.as_deref(), Some("value"), "{key}");
    }
    cluster.await_calm();
}

#[test]
#[ignore = "soak"]
fn the_other_shards_serve_unless_full_coverage_is_required() {
    let (partial, full) = (
        ClusterDeployment::start(),
        ClusterDeployment::start_with_full_coverage(),
    );
    for (cluster, refused) in [(&partial, None), (&full, Some("CLUSTERDOWN"))] {
        // The replica is killed, too, so that no server takes over.
        cluster.replica_of(0).kill();
        cluster.kill_primary(0);
        let slot = cluster.slot_of("key");
        assert!(slot > 10_922);
        let node = cluster.primary_of(slot);
        cluster.await_lost(0);
        assert_eq!(error_code(node, &set("key")).as_deref(), refused);
    }
}

#[test]
#[ignore = "soak"]
fn two_clusters_at_once_do_not_affect_each_other() {
    let (one, other) = (ClusterDeployment::start(), ClusterDeployment::start());
    let key = unique("key");
    let slot = other.slot_of(&key);
    let untouched = other.primary_of(slot);
    untouched.ask::<()>(&set(&key));
    one.kill_primary(slot);
    one.await_failover(slot);
    assert_eq!(other.primary_of(slot).port(), untouched.port());
    assert!(untouched.ask::<Option<String>>(&get(&key)).is_some());
    assert!(one.urls().iter().all(|url| !other.urls().contains(url)));
}

#[test]
fn the_shared_deployment_is_healthy_and_exists_once() {
    let one = ClusterDeployment::shared();
    let other = ClusterDeployment::shared();
    assert_eq!(one.urls(), other.urls());
    assert_eq!(one.nodes().len(), 6);
    assert_eq!(one.primaries().len(), 3);
    one.await_calm();
}
