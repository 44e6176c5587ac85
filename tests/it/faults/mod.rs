//! The promises under faults: one module for each kind of fault.

#[macro_use]
pub mod deployment;

pub mod abandoned;
pub mod blocking_log;
mod broken_connections;
pub mod clock;
mod counts;
pub mod failed_connects;
mod floods;
pub mod force_unlock;
pub mod fork;
mod hangs;
pub mod in_redis;
pub mod killed;
mod kinds;
mod lost_replies;
mod lying;
mod owned;
pub mod paused;
pub mod proxied_server;
mod pubsub;
mod refusals;
mod renewal;
mod restarts;
mod rotation;
