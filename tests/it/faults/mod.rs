//! The promises under faults: one module for each kind of fault.

#[macro_use]
mod place;

pub mod abandoned;
pub mod bench;
pub mod blocked;
mod broken_connections;
pub mod clock;
mod doubt;
pub mod forced;
pub mod fork;
mod hangs;
mod held_back;
pub mod killed;
mod lost_replies;
pub mod panics;
pub mod paused;
mod proxied;
mod proxy;
mod pubsub;
mod refusals;
mod renewal;
mod restarts;
mod seen;
pub mod unopened;
