//! The Redis server of the tests in `tests/it`, which ends with this process, even if it is killed.

#![allow(dead_code, reason = "a part of the tests' support is used")]

#[path = "../it/support/certificates.rs"]
mod certificates;
#[path = "../it/support/process.rs"]
mod process;
#[path = "../it/support/server/mod.rs"]
mod server;
#[path = "../it/support/timing.rs"]
mod timing;
#[path = "../it/support/unique.rs"]
mod unique;

pub use server::Server;
pub use unique::unique;
