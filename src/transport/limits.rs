//! The limits of the connections to each server.

use std::time::Duration;

/// How many connections to each server a client has, and how long it waits for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Links that the callers share.
    pub(crate) connections: usize,
    /// Exclusive connections.
    pub(crate) pool_size: u32,
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
}
