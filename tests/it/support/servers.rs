//! What examples, benches and other programs include to have real servers: one line,
//! `#[path = "../tests/it/support/servers.rs"] mod servers;`. The tests themselves do not need it.

#![allow(dead_code, reason = "each program that includes it uses a part")]

pub mod certificates;
pub mod deployment;
pub mod process;
pub mod server;
pub mod timing;
mod unique;

pub use unique::unique;
