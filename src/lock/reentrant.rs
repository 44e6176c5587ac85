//! The plain lock.

use std::sync::Arc;
use std::time::Duration;

use super::LockGuard;
use super::handle::{Acquire, Handle, LockKind};
use super::methods::lock_by_handle;
use crate::base::interrupt::Interrupt;
use crate::core::Core;
use crate::error::Result;
use crate::lease::Lease;
use crate::local::Hold;

/// A reentrant lock: a thread that holds it can acquire it again, and frees it with the last
/// unlock. Made by [`LockClient::reentrant_lock`](crate::LockClient::reentrant_lock).
///
/// A handle is cheap to clone. Clones, and handles of the same name from the same client, are the
/// same lock. The threads of one client acquire it in the order of their calls. Between clients,
/// the first request after a release acquires it.
///
/// The format in Redis is that of Redisson's `RLock`: a hash that maps the owner id to the hold
/// count.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::LockClient;
///
/// let client = LockClient::connect(url)?;
/// let lock = client.reentrant_lock("order:pay");
/// lock.lock()?;
/// lock.lock()?;
/// assert_eq!(lock.hold_count(), 2);
/// lock.unlock()?;
/// lock.unlock()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ReentrantLock(Handle);

impl ReentrantLock {
    pub(crate) fn new(core: Arc<Core>, name: &str) -> Self {
        Self(Handle::new(core, name, LockKind::Plain))
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.0
    }
}

lock_by_handle!(ReentrantLock);
