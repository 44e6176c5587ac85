//! Deployments of several real servers, with the actions of an operator.
//!
//! All servers are private, on loopback, with their files in temporary directories. They end with
//! the value, or with this process if that is earlier.

mod cluster;
mod independent;
mod replicated;
mod replication;
mod sentinel;
mod shared;

#[allow(unused_imports, reason = "each program that includes it uses a part")]
pub use {
    cluster::{ClusterDeployment, Migration},
    independent::Independent,
    replicated::Replicated,
    sentinel::SentinelDeployment,
    shared::Shared,
};

use super::server::program::is_redis_7;
use super::server::{Options, Port, Server, TimeLimit};
use super::timing::{SOON, eventually, eventually_some, millis};

/// With these settings a replica gets a file and is then online. A replica that gets the data
/// straight from memory, which is the default, is reported online up to a second before the master
/// sends writes to it.
const REPLICATION: [&str; 4] = [
    "--repl-diskless-sync",
    "no",
    "--repl-ping-replica-period",
    "1",
];
