//! The deployments of several servers that the tests use.
//!
//! The servers end and their directories are removed when this process ends, even if it is killed.
//! So the examples need no handler for Ctrl-C.

#![allow(
    dead_code,
    unused_imports,
    reason = "each example uses a part of the tests' support"
)]

#[path = "../../tests/it/support/certificates.rs"]
mod certificates;
#[path = "../../tests/it/support/deployment/mod.rs"]
mod deployment;
#[path = "../../tests/it/support/process.rs"]
mod process;
#[path = "../../tests/it/support/server/mod.rs"]
mod server;
#[path = "../../tests/it/support/timing.rs"]
mod timing;
#[path = "../../tests/it/support/unique.rs"]
mod unique;

use std::{
    io::ErrorKind,
    process::{Command, Stdio},
};

pub use deployment::{ClusterDeployment, Independent, SentinelDeployment};
pub use server::Server;
use unique::unique;

use crate::support::{Result, Stop};

/// Fails early, with a helpful error, if redis-server is not installed.
pub fn find_server() -> Result<()> {
    let mut version = Command::new("redis-server");
    version.arg("--version").stdout(Stdio::null());
    match version.status() {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Stop::NoServer.into()),
        Err(error) => Err(format!("cannot run redis-server: {error}").into()),
        Ok(_) => Ok(()),
    }
}
