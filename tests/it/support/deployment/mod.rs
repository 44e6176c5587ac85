//! Deployments of many real servers, each with what an operator does to it.
//!
//! All of their servers are private, on loopback, with their files in temporary directories, and
//! end with the value, or with this process if that comes first.

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

use super::server::{Fuse, Machine, Options, Port, Server};
use super::timing::{SOON, eventually, eventually_some, millis};

/// A replica gets a file and is online then. Of one that gets the data straight from memory, which
/// is the default, the master says the same up to a second before it sends writes on.
const REPLICATION: [&str; 4] = [
    "--repl-diskless-sync",
    "no",
    "--repl-ping-replica-period",
    "1",
];
