//! Messages are hints: without them waiting takes longer, but not for ever.

mod forbidden;
mod killed;
mod lost;

use super::place::Place;
use crate::support::server::Server;
use crate::support::traffic;

/// What clients sent to wait and to try: releases, and what scripts call, left out.
fn commands(server: &Server, releases: u64) -> u64 {
    traffic::sent(server, releases) - releases
}

/// The same in each place. Sentinels ping and publish themselves, so only scripts are counted there.
fn commands_in(place: &Place, server: &Server, releases: u64) -> u64 {
    match place {
        Place::Sentinel(_) => traffic::scripts(server) - releases,
        _ => commands(server, releases),
    }
}
