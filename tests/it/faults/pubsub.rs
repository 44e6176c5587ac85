//! Without messages, waiting takes longer, but not indefinitely.

mod batches;
mod forbidden;
mod killed;
mod lost;

use super::deployment::Deployment;
use crate::support::server::Server;
use crate::support::traffic;

/// The number of commands that clients sent to wait and to try. Releases and calls inside scripts
/// are left out. A lock that is handed over has no release in Redis.
fn commands(server: &Server, releases: u64) -> u64 {
    traffic::sent(server, releases).saturating_sub(releases)
}

/// The number of these commands in any deployment. Sentinels ping and publish themselves, so only
/// scripts are counted there.
fn commands_in(deployment: &Deployment, server: &Server, releases: u64) -> u64 {
    match deployment {
        Deployment::Sentinel(_) => traffic::scripts(server).saturating_sub(releases),
        _ => commands(server, releases),
    }
}

/// Cuts all subscriptions on these servers.
fn kill_subscribers(servers: &[&Server]) {
    let kill = redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "pubsub"])
        .clone();
    servers.iter().for_each(|server| server.ask::<()>(&kill));
}
