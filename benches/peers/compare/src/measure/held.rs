//! Many locks that one process holds.

use std::thread;

use leasehold_peers_compare::Result;
use leasehold_peers_compare::results::Held;

use super::pairs::PAIRS;
use super::{Scale, progress};
use crate::driver::Driver;
use crate::machine::now;
use crate::peers::Peer;
use crate::server::Server;

pub fn measure(peer: &'static Peer, scale: &Scale) -> Result<Held> {
    progress(&format!("{}: {} held locks", peer.name, scale.locks));
    // Its own server: no other process has connections to it.
    let server = Server::start()?;
    let mut driver = Driver::start(peer, &server.url())?;
    driver.call(&format!("pairs warm-up {PAIRS}"))?;
    server.clear()?;
    let start = now();
    driver.call(&format!("hold held {}", scale.locks))?;
    let acquired = now();
    let (client, server_cpu) = (driver.cpu_time()?, server.cpu_time()?);
    // MONITOR would slow the server with each command that a script executes.
    let calls = server.script_calls()?;
    thread::sleep(scale.hold);
    Ok(Held {
        acquire_seconds: (acquired - start) as f64 / 1e9,
        client_cpu_seconds: (driver.cpu_time()? - client).as_secs_f64(),
        server_cpu_seconds: (server.cpu_time()? - server_cpu).as_secs_f64(),
        script_calls: server.script_calls()? - calls,
        seconds: (now() - acquired) as f64 / 1e9,
        lost: (scale.locks as u64).saturating_sub(server.keys()?),
    })
}
