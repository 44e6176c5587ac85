//! A model of permits with leases. Some workers share K permits; each is a thread that acquires,
//! holds and releases one permit at a time, under any number of ids.
//!
//! Time advances in ticks, the same for the workers and for Redis. A lease is two ticks or three. A
//! command without a reply may be lost, executed, or executed at any later time, and its caller
//! retries or gives up. Another program may release a permit, and a worker may crash. The number of
//! failures is bounded. Waits and messages are not modelled: a worker tries at any time.

mod promises;
mod redis;
mod state;
mod tests;

pub use state::{Bounds, Planted};
