//! The clock of the log: that of the world, which all processes share.

use leasehold_simulation_world::time;

/// Nanoseconds since the begin of the world. No two calls return the same.
pub fn now() -> u64 {
    time::stamp()
}
