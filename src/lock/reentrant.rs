//! The plain lock.

use super::Condition;
use super::methods::*;

/// A reentrant lock: a thread that holds it can acquire it again, and frees it with the last
/// unlock. Made by [`LockClient::reentrant_lock`](crate::LockClient::reentrant_lock).
///
/// A handle is cheap to clone. Clones, and handles of the same name from the same client, are the
/// same lock.
///
/// A nested acquire, and an unlock that leaves a level, send no request, unless the nested acquire
/// needs a longer lease than the lock has.
///
/// # Order
///
/// Clients, and the threads of a client, get the lock in the order in which they began to wait; a
/// thread that unlocks may first hand it over within its client ([details](crate#6-order)).
///
/// # Conditions
///
/// A thread that holds the lock can wait until another one, also of another process, notifies it:
/// see [`condition`](Self::condition).
///
/// # Format
///
/// The format in Redis is that of Redisson's `RLock`: a hash that maps the owner id to the hold
/// count. The count is written for other programs to read, and may be up to a second old.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::LockClient;
///
/// let client = LockClient::connect(url)?;
/// let lock = client.reentrant_lock("order:pay");
/// let outer = lock.acquire()?;
/// let inner = lock.acquire()?;
/// assert_eq!(lock.hold_count(), 2);
/// inner.unlock()?;
/// outer.unlock()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ReentrantLock(pub(crate) SingleLock);

impl ReentrantLock {
    /// Returns the condition of this lock with this name. Clients that use the same names use the
    /// same condition. No I/O: a bad name is refused by the first wait or notification.
    ///
    /// Bounds of a name: 1 to 512 bytes. [`Condition`] has an example.
    #[must_use]
    pub fn condition(&self, name: &str) -> Condition {
        Condition::new(self.0.clone(), name)
    }
}

lock_by_handle!(ReentrantLock);
