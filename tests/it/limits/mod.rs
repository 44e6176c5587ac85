//! What it costs and how long it takes, at most.

mod commands;
pub mod fairness;
pub mod growth;
pub mod hang;
mod idle;
