//! The attribute `#[locked]`.

mod current;
mod default_client;
mod holding;
mod kept;
mod keys;
mod logging;
mod losing;
mod parameters;
mod processes;
mod several;
mod shapes;
mod shop;

#[allow(dead_code, reason = "a part is used")]
#[path = "../it/support/child_process.rs"]
mod child_process;
#[path = "../it/support/logs.rs"]
mod logs;
#[path = "../it/support/servers.rs"]
mod servers;

use servers::{process, timing};
