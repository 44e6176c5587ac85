//! What `leasehold::testing` consists of. Use it from there, by the feature `testing` of
//! `leasehold`: that names the scripts, and makes clients of the server.
//!
//! | module | duty |
//! |---|---|
//! | `frame` | where requests and replies end in the protocol of Redis |
//! | `in_memory` | a small Redis in the process of a test |
//! | `proxy` | a proxy with faults before any server |
//! | [`clock`] | the time that a test skips for the clients of a server in memory |
//! | `known_scripts` | the scripts that a server and a proxy know at their start |

#![warn(unreachable_pub)]

pub mod clock;
mod frame;
mod in_memory;
mod known_scripts;
mod proxy;

pub use in_memory::InMemoryRedis;
pub use known_scripts::KnownScripts;
pub use proxy::{Fault, FaultProxy, Gate, ProxiedRequest};
