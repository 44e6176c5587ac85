//! Bounds of costs and times.

mod commands;
pub mod growth;
mod hang;
mod idle;
#[cfg(target_os = "linux")]
pub mod threads;
