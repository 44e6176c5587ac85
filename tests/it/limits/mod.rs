//! Bounds of costs and times.

mod commands;
pub mod fairness;
pub mod growth;
pub mod hang;
mod idle;
#[cfg(target_os = "linux")]
pub mod threads;
