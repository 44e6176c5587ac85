//! Takes over holds that other guards have given away.

use std::sync::Arc;

use super::LockClient;
use crate::engine::SingleLock;
use crate::error::{Error, Result};
use crate::lock::{OwnedGuard, PermitGuard};
use crate::protocol::{PERMITS, Token};

impl LockClient {
    /// Takes over the hold that a guard has given away by
    /// [`OwnedGuard::into_token`]: of this client or another one, in this process or another one.
    /// The client must use the same Redis, database and namespace.
    ///
    /// The new guard has the whole lease, which counts from before this request, the renewals that
    /// were left, and the same [fencing token](OwnedGuard::fencing_token). It is like any other
    /// owned guard: it excludes the threads of this client, too. A token works once.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use leasehold::{Lease, LockClient};
    ///
    /// let service = LockClient::connect(url)?;
    /// let lock = service.reentrant_lock("order:pay");
    /// let token = lock.acquire_owned(Lease::RENEWED)?.into_token()?;
    /// assert!(lock.try_acquire_now()?.is_none());
    ///
    /// // In a worker process.
    /// let worker = LockClient::connect(url)?;
    /// let guard = worker.adopt(&token)?;
    /// guard.check()?;
    /// guard.unlock()?;
    /// assert!(worker.adopt(&token).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// * [`Error::Lost`] with [`LostReason::TokenSpent`](crate::LostReason::TokenSpent) if the lock
    ///   is not held under this token any more.
    /// * [`Error::Config`] if `token` is no whole token, was made by a version of this crate that
    ///   this one cannot read, or is that of a permit. No error contains a token.
    /// * [`Error::Unavailable`] after three command timeouts without a reply. If Redis may have
    ///   executed the request, the watchdog releases the lock, so the token is spent; the error
    ///   says so. Otherwise the call can be repeated.
    /// * [`Error::TooFewReplicas`] as by [`Lock::lock`](crate::Lock::lock). The lock is released.
    /// * [`Error::Redis`] if Redis refused, and [`Error::WrongType`] if the key has another value.
    /// * [`Error::ShutDown`], and [`Error::Forked`] in a process that was forked from the client's.
    pub fn adopt(&self, token: &str) -> Result<OwnedGuard> {
        let token = Token::parse(token)?;
        if *token.kind == PERMITS {
            let rule = "pass it to `adopt_permit`";
            return Err(Error::config("token", "that of a permit", rule).concerning(&token.name));
        }
        let lock = self.lock_of(&token).owned();
        Ok(OwnedGuard::of(lock.shared_name(), lock.adopt(&token)?))
    }

    /// Takes over the permit of a [`LeasedSemaphore`](crate::LeasedSemaphore) that a guard has
    /// given away by [`PermitGuard::into_token`]. It gets a new [id](PermitGuard::id). Otherwise as
    /// [`adopt`](Self::adopt).
    ///
    /// # Errors
    ///
    /// Those of [`adopt`](Self::adopt), and [`Error::Config`] for the token of a lock.
    pub fn adopt_permit(&self, token: &str) -> Result<PermitGuard> {
        let token = Token::parse(token)?;
        if *token.kind != PERMITS {
            let rule = "pass it to `adopt`";
            return Err(Error::config("token", "that of a lock", rule).concerning(&token.name));
        }
        let semaphore = self.lock_of(&token);
        let permit = semaphore.adopt(&token)?;
        Ok(PermitGuard::of(semaphore.shared_name(), permit))
    }

    fn lock_of(&self, token: &Token) -> SingleLock {
        SingleLock::new(Arc::clone(&self.core), &token.name, token.kind)
    }
}
