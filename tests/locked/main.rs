//! The attribute `#[locked]`.

mod current;
mod holding;
mod keys;
mod logging;
mod losing;
mod parameters;
mod processes;
mod shapes;
mod shop;

#[path = "../it/support/logs.rs"]
mod logs;
#[path = "../it/support/servers.rs"]
mod servers;
