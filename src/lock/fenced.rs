//! The lock whose holds are numbered, so that what it protects can refuse a late one.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::LockGuard;
use super::debug::Short;
use super::handle::{Acquire, Handle, LockKind};
use super::methods::lock_by_handle;
use crate::base::interrupt::Interrupt;
use crate::core::Core;
use crate::error::Result;
use crate::lease::Lease;
use crate::local::Hold;

/// A reentrant lock that numbers its holds. Made by
/// [`LockClient::fenced_lock`](crate::LockClient::fenced_lock).
///
/// A process that is paused after its last [`check`](LockGuard::check) writes when it wakes up, and
/// no lock can keep it from that. What it writes to can: it remembers the greatest
/// [token](FencedGuard::fencing_token) that it has seen, and refuses whoever comes with a smaller one.
///
/// # What the tokens promise
///
/// For one name, each new hold has a greater token than every hold before it, whichever process or
/// machine has it; a nested acquire has the token of its hold. The token is made by the script that
/// takes the lock: one more than the last one, but at least the server's clock in microseconds. So tokens
/// rise on when Redis has lost the last one (a flush, a failover, seven days without use), as long as
/// the clock that Redis has then is not behind what it was at the last hold: it was not set back, and that
/// of a promoted replica is right.
///
/// # Beside Redisson
///
/// In Redis it is Redisson's `RFencedLock`, with the last token under
/// `redisson_lock_token:{name}`, so Java and Rust holders share one rising sequence. Redisson raises the
/// token at each nested acquire, too, and keeps the key for ever; here it expires seven days after
/// this crate took the lock last, unless it has no time to live: then it is left so. **Where Java
/// processes share the name, keep it for ever** (`PERSIST redisson_lock_token:{name}`, once): theirs is no use
/// that prolongs it, and without it they would count from 1 again. A hold of this crate lifts the counter
/// to the clock, 16 digits.
///
/// Use one kind of lock for one name. A thread that holds a lock by a
/// [`ReentrantLock`](crate::ReentrantLock) has no token, and taking it again by this one is an
/// [`Error::Config`](crate::Error::Config).
///
/// The name is Martin Kleppmann's, from "How to do distributed locking" (2016).
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::LockClient;
///
/// let client = LockClient::connect(url)?;
/// let lock = client.fenced_lock("order:pay");
///
/// let guard = lock.acquire()?;
/// let first = guard.fencing_token();
/// // UPDATE orders SET state = ?, fence = :first WHERE id = ? AND fence <= :first
/// guard.unlock()?;
///
/// assert!(lock.acquire()?.fencing_token() > first);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FencedLock(Handle);

impl FencedLock {
    pub(crate) fn new(core: Arc<Core>, name: &str) -> Self {
        Self(Handle::new(core, name, LockKind::Fenced))
    }
}

lock_by_handle!(FencedLock, FencedGuard, FencedGuard::new);

/// A [`LockGuard`] with the number of its hold.
#[must_use = "a guard that is dropped at once unlocks at once"]
pub struct FencedGuard {
    guard: LockGuard,
    token: u64,
}

impl FencedGuard {
    fn new(guard: LockGuard) -> Self {
        // A hold that was taken or entered by this kind of lock has one.
        let token = guard.token().unwrap_or_default();
        Self { guard, token }
    }

    /// Greater than that of every hold of this name before this one; the same for all levels of one
    /// hold. Never zero, and below 2^63, so that it fits a signed column. Asks nobody.
    ///
    /// Give it to whatever the lock protects, with each write, and have a write refused there whose
    /// token is smaller than the greatest one seen.
    #[must_use]
    pub fn fencing_token(&self) -> u64 {
        self.token
    }

    /// Unlocks, and says how that went.
    ///
    /// # Errors
    ///
    /// As [`Lock::unlock`](crate::Lock::unlock).
    pub fn unlock(self) -> Result<()> {
        self.guard.unlock()
    }

    /// Unlocks in this process, and keeps the lock in Redis for `time` from now on. The documentation
    /// of [`LockGuard::unlock_after`] has the details, and an example.
    ///
    /// # Errors
    ///
    /// Those of [`LockGuard::unlock_after`].
    pub fn unlock_after(self, time: Duration) -> Result<()> {
        self.guard.unlock_after(time)
    }
}

impl Deref for FencedGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

/// The guard without the token, for code that takes the guard of any lock.
impl From<FencedGuard> for LockGuard {
    fn from(fenced: FencedGuard) -> Self {
        fenced.guard
    }
}

impl fmt::Debug for FencedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FencedGuard");
        shown.field("name", &Short(self.name()));
        shown.field("token", &self.token);
        self.show_state(&mut shown);
        shown.finish()
    }
}
