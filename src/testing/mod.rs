//! For tests of programs that use this crate: locks without Redis, and a proxy with faults.
//!
//! [`InMemoryRedis`] is a small server in the process of the test. Its clients are the same types
//! as with Redis, and run the same code and the same scripts. A test can move their clock, take a
//! lock away from its holder, and make the server unavailable.
//!
//! The page [testing](crate::guide::testing) shows how.

mod frame;
mod in_memory;
mod proxy;

pub use in_memory::InMemoryRedis;
pub use proxy::{Fault, FaultProxy, Gate, ProxiedRequest};

use crate::client::LockClient;
use crate::error::Result;

impl LockClient {
    /// Makes a client of a new [`InMemoryRedis`], which no other client uses. Needs the feature
    /// `testing`.
    ///
    /// Start the server itself to make several clients of it, or to change it during the test.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// use leasehold::LockClient;
    ///
    /// let client = LockClient::in_memory()?;
    /// let guard = client.reentrant_lock("order:pay").acquire()?;
    /// guard.check()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`InMemoryRedis::start`].
    pub fn in_memory() -> Result<Self> {
        InMemoryRedis::start()?.client()
    }
}
