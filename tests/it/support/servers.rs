//! Real servers for examples, benches and other programs, which include this file by one line:
//! `#[path = "../tests/it/support/servers.rs"] mod servers;`.

#![allow(dead_code, reason = "each program that includes it uses a part")]

pub mod certificates;
pub mod deployment;
pub mod process;
pub mod server;
pub mod timing;
mod unique;

pub use unique::unique;
