//! Without messages, waiting takes longer, but not indefinitely.

mod forbidden;
mod killed;

use crate::support::prelude::*;

/// The number of commands that clients sent to wait and to try. Releases and calls inside scripts
/// are left out. A lock that is handed over has no release in Redis.
fn commands_in(server: &Server, releases: u64) -> u64 {
    traffic::sent(server, releases).saturating_sub(releases)
}

/// Cuts all subscriptions on these servers.
fn kill_subscribers(servers: &[&Server]) {
    for server in servers {
        server.run("CLIENT KILL TYPE pubsub");
    }
}
