//! The deployments of many servers that other tests stand on.

mod cluster;
mod ends;
mod sentinel;
mod servers;

use redis::Cmd;

pub use ends::leave_servers;

fn set(key: &str) -> Cmd {
    redis::cmd("SET").arg(key).arg("value").clone()
}

fn get(key: &str) -> Cmd {
    redis::cmd("GET").arg(key).clone()
}
