//! Deployments of several servers: locks while servers die, hang and fail over.

use crate::support::prelude::*;

mod cluster_moved;
mod cluster_paused;
mod cluster_traffic;
mod growth;
mod sentinel_demoted;
mod sentinel_killed;
mod sentinels_gone;

pub use growth::many_failovers;

/// Settings for servers that are replaced within two or three seconds.
fn client_for_failovers(builder: LockClientBuilder) -> LockClient {
    // Longer than a failover, so that a hold that survives it is renewed or released in time.
    let builder = builder.watchdog_lease(millis(4_000));
    let builder = builder.command_timeout(millis(400));
    builder.build().expect("the settings are valid")
}

fn of_sentinel(deployment: &SentinelDeployment) -> LockClientBuilder {
    LockClient::builder_sentinel(deployment.sentinel_urls(), deployment.master_name())
}

fn of_cluster(cluster: &ClusterDeployment) -> LockClientBuilder {
    LockClient::builder_cluster(cluster.urls())
}

/// The number of connections that clients with locks have to a server. Those of sentinels, of other
/// servers and of this query are left out.
fn connections(server: &Server) -> usize {
    let list: String = server.ask(redis::cmd("CLIENT").arg("LIST"));
    let is_ours = |line: &&str| {
        let others = ["cmd=client", "name=sentinel", "flags=S", "flags=M"];
        !others.iter().any(|other| line.contains(other))
    };
    list.lines().filter(is_ours).count()
}
