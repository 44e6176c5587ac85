//! Conditions in a cluster and with replicas.

use super::{Place, await_waiting, waiting};
use crate::support::prelude::*;

/// Threads of two clients wait for another client, and are notified one after the other.
fn notify_waiters<'a>(builder: &LockClientBuilder, name: &str, server: impl Fn() -> &'a Server) {
    let clients = [(); 3].map(|()| builder.clone().build().expect("the settings are valid"));
    let [here, there, notifier] = clients.each_ref().map(|client| Place::of(client, name));
    thread::scope(|scope| {
        let first = scope.spawn(|| here.wait());
        await_waiting(server(), name, 1);
        let second = scope.spawn(|| there.wait());
        await_waiting(server(), name, 2);
        let bound = SOON.get();
        within(bound, "the first notification", || {
            notifier.notify_one();
            first.join().unwrap();
        });
        within(bound, "the second notification", || {
            notifier.notify_all();
            second.join().unwrap();
        });
    });
    assert_eq!(waiting(server(), name), 0);
}

fn cluster_builder(cluster: &ClusterDeployment) -> LockClientBuilder {
    LockClient::builder_cluster(cluster.urls()).watchdog_lease(LEASE.get() * 3)
}

/// All keys and channels of a condition are in the slot of its lock.
#[test]
fn in_a_cluster() {
    let cluster = ClusterDeployment::shared();
    for name in [
        unique("condition"),
        format!("{{tag}}:{}", unique("condition")),
    ] {
        let server = || cluster.primary_of(cluster.slot_of(&name));
        notify_waiters(&cluster_builder(&cluster), &name, server);
    }
}
