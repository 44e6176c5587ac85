//! Without messages, waiting takes longer, but not indefinitely.

mod forbidden;
mod killed;

use super::deployment::Deployment;
use crate::support::prelude::*;

/// The number of commands that clients sent to wait and to try. Releases and calls inside scripts
/// are left out. A lock that is handed over has no release in Redis. Sentinels ping and publish
/// themselves, so only scripts are counted there.
fn commands_in(deployment: &Deployment, server: &Server, releases: u64) -> u64 {
    let sent = match deployment {
        Deployment::Sentinel(_) => traffic::scripts(server),
        _ => traffic::sent(server, releases),
    };
    sent.saturating_sub(releases)
}

/// Cuts all subscriptions on these servers.
fn kill_subscribers(servers: &[&Server]) {
    for server in servers {
        server.run("CLIENT KILL TYPE pubsub");
    }
}
