//! Deployments of many servers, as the tests of this crate use them.
//!
//! Their servers, and the directories of these, are gone with the process that started them, however it ends:
//! Ctrl-C needs no handler.

#![allow(
    dead_code,
    unused_imports,
    reason = "each example uses a part of what the tests have"
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

/// Says early, and in plain words, if there is nothing to start.
pub fn find_server() -> Result<()> {
    let mut version = Command::new("redis-server");
    version.arg("--version").stdout(Stdio::null());
    match version.status() {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Stop::NoServer.into()),
        Err(error) => Err(format!("cannot run redis-server: {error}").into()),
        Ok(_) => Ok(()),
    }
}
