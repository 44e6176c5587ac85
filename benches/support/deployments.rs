//! The deployments of several servers that the tests use.

#![allow(dead_code, unused_imports, missing_docs)]

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

pub use deployment::ClusterDeployment;
use unique::unique;
