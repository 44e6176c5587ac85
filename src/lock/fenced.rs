//! The fenced lock, whose holds have fencing tokens.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::guard_methods::unlock_methods;
use super::methods::*;
use crate::composite::Held;

/// A reentrant lock that gives each hold a fencing token. Made by
/// [`LockClient::fenced_lock`](crate::LockClient::fenced_lock).
///
/// The system that the holder writes to remembers the greatest
/// [token](FencedGuard::fencing_token) that it has seen, and rejects writes with a smaller one. So
/// it rejects the late write of a process that was paused for longer than its lease, which a lock
/// alone cannot prevent ([limits](crate#limits)).
///
/// # Order of the tokens
///
/// Each new hold of a name has a greater token than every hold before it, in all processes and on
/// all machines. A hold that one thread hands over to another thread of its client is a new hold
/// with a token of its own. A nested acquire has the token of its hold.
///
/// The script that acquires the lock makes the token: one more than the last token, but at least
/// the server's clock in microseconds. So the tokens also increase after Redis has lost the last
/// one (a flush, a failover), unless the server's clock is behind its time at the last hold: it
/// must not be set back, and a promoted replica must have the right time. While a master that was
/// replaced still replies to some clients, it makes tokens, too: two holders at that time can have
/// the same token, or tokens in the other order.
///
/// The last token of each name stays in Redis in a small key, `redisson_lock_token:{NAME}`, which
/// does not expire: see [how to remove it](crate::guide::costs#keys-that-stay-in-redis).
///
/// If other threads of the client wait, if the thread has waited itself, or if the client
/// [lingers](crate::LockClientBuilder::linger), the script reserves 256 tokens for the holds that
/// may follow without a request. Those that no hold gets are never used, so the tokens can skip
/// numbers.
///
/// If another program deletes a held lock, for example by
/// [`force_unlock`](crate::LockClient::force_unlock), a hold that follows without a request begins
/// on a lost grant: its token may be less than one that was given since. Its thread is notified of
/// the loss like any other holder.
///
/// # Redisson
///
/// The format in Redis is that of Redisson's `RFencedLock`, so the tokens of Java and Rust holders
/// increase together: see [Redisson](crate::guide::redisson).
///
/// # Errors
///
/// Those of [every method](crate::Lock#errors-of-every-method-that-asks-redis), and two for the
/// last token in Redis. Nothing is changed then:
///
/// * [`Error::Redis`](crate::Error::Redis) if it is not a whole number or has reached 2^53.
/// * [`Error::WrongType`](crate::Error::WrongType) if its key has another type.
///
/// Use one kind of lock for one name. A hold of a [`ReentrantLock`](crate::ReentrantLock) has no
/// token: if its thread acquires the same name as a fenced lock, that is an
/// [`Error::InvalidArgument`](crate::Error::InvalidArgument).
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
pub struct FencedLock(pub(crate) SingleLock);

lock_by_handle!(FencedLock, FencedGuard);

/// A [`LockGuard`] with the fencing token of its hold. It dereferences to the [`LockGuard`].
#[must_use = "dropping a guard unlocks: keep it in a variable with a name, such as `_guard`, \
              because `let _ =` drops it at once"]
pub struct FencedGuard(LockGuard);

impl FencedGuard {
    fn of(name: Arc<str>, held: impl Into<Held>) -> Self {
        Self(LockGuard::of(name, held))
    }

    /// Returns the fencing token of the hold: greater than the token of every earlier hold of this
    /// name, in all processes, and the same for all levels of one hold. A hold that was handed over
    /// by another thread has a token of its own. A token is greater than zero and less than 2^53,
    /// so that it fits a signed column and a double. No I/O.
    ///
    /// Send it with each write to the system that the lock protects. There, reject a write whose
    /// token is smaller than the greatest one seen.
    #[must_use]
    pub fn fencing_token(&self) -> u64 {
        // Always set: this kind of lock makes and enters only holds with a token.
        self.0.fencing_token().unwrap_or_default()
    }
}

unlock_methods!(FencedGuard, 0);

impl Deref for FencedGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.0
    }
}

/// Converts to the guard of any lock, which keeps the token.
impl From<FencedGuard> for LockGuard {
    fn from(fenced: FencedGuard) -> Self {
        fenced.0
    }
}

impl fmt::Debug for FencedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.show(f, "FencedGuard")
    }
}
