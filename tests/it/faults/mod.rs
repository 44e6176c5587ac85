//! What is promised, on the worst day: one module for each kind of fault.

mod bench;
mod broken_connections;
mod clock;
mod fork;
mod hangs;
mod held_back;
mod killed;
mod lost_replies;
mod paused;
mod proxy;
mod pubsub;
mod refusals;
mod renewal;
mod restarts;
