//! The handles that a client makes: locks of each kind, semaphores, latches. And the guards of what
//! it adopts.

use std::sync::Arc;

use super::LockClient;
use crate::base::Family;
use crate::composite::Composite;
use crate::engine::{Number, SingleLock};
use crate::error::{Error, Result};
use crate::lock::{
    CountDownLatch, FairLock, FencedLock, LeasedSemaphore, Lock, MultiLock, OwnedGuard,
    PermitGuard, ReadLock, ReadWriteLock, RedLock, ReentrantLock, Semaphore, WriteLock,
};
use crate::protocol::{FAIR, FENCED, Kind, LOCKS, PERMITS, PLAIN, READ, Token, WRITE};

/// Returns the kinds that [`lock_of_kind`] makes: `reentrant`, `fenced`, `fair`, `read` and
/// `write`.
pub fn lock_kinds() -> impl Iterator<Item = &'static str> {
    LOCKS.into_iter().map(|kind| kind.name)
}

/// Makes a handle of the lock with this name and of this kind, one of [`lock_kinds`].
///
/// # Errors
///
/// [`Error::InvalidArgument`] for another kind.
pub fn lock_of_kind(client: &LockClient, kind: &str, name: &str) -> Result<Box<dyn Lock>> {
    Ok(match kind {
        "reentrant" => Box::new(client.reentrant_lock(name)),
        "fenced" => Box::new(client.fenced_lock(name)),
        "fair" => Box::new(client.fair_lock(name)),
        "read" => Box::new(client.read_write_lock(name).read),
        "write" => Box::new(client.read_write_lock(name).write),
        _ => {
            let names = lock_kinds().collect::<Vec<_>>().join(", ");
            let rule = format!("must be one of {names}");
            let error = Error::argument("kind", format_args!("{kind:?}"), rule);
            return Err(error.concerning(name));
        }
    })
}

impl LockClient {
    fn single(&self, name: &str, kind: &'static Kind) -> SingleLock {
        SingleLock::new(Arc::clone(&self.core), name, kind)
    }

    fn number(&self, name: &str, family: Family) -> Number {
        Number::new(Arc::clone(&self.core), family, name)
    }

    /// Makes a handle of the reentrant lock with this name. Never fails and sends nothing: an
    /// invalid name is an error of the first call that uses the handle.
    ///
    /// Bounds of a name: 1 to 512 bytes of any UTF-8. Do not use one name for locks of different
    /// kinds.
    ///
    /// [`ReentrantLock`] has an example.
    #[must_use]
    pub fn reentrant_lock(&self, name: &str) -> ReentrantLock {
        ReentrantLock(self.single(name, &PLAIN))
    }

    /// Makes a handle of the fenced lock with this name: a reentrant lock that gives each hold a
    /// fencing token. A storage system can reject late writes by this number. Never fails and sends
    /// nothing: an invalid name is an error of the first call that uses the handle.
    ///
    /// Bounds of a name: 1 to 512 bytes of any UTF-8. Do not use one name for locks of different
    /// kinds.
    ///
    /// [`FencedLock`] has an example.
    #[must_use]
    pub fn fenced_lock(&self, name: &str) -> FencedLock {
        FencedLock(self.single(name, &FENCED))
    }

    /// Makes a handle of the fair lock with this name: a reentrant lock that clients acquire first
    /// come, first served. Never fails and sends nothing: an invalid name is an error of the first
    /// call that uses the handle.
    ///
    /// Bounds of a name: 1 to 512 bytes of any UTF-8. Do not use one name for locks of different
    /// kinds.
    ///
    /// [`FairLock`] has an example.
    #[must_use]
    pub fn fair_lock(&self, name: &str) -> FairLock {
        FairLock(self.single(name, &FAIR))
    }

    /// Makes a handle of the semaphore with this name. Never fails and sends nothing: an invalid
    /// name is an error of the first call that uses the handle.
    ///
    /// Bounds of a name: 1 to 512 bytes of any UTF-8. Do not use one name for different kinds.
    ///
    /// [`Semaphore`] has an example.
    #[must_use]
    pub fn semaphore(&self, name: &str) -> Semaphore {
        Semaphore(self.number(name, Family::Semaphore))
    }

    /// Makes a handle of the latch with this name. Never fails and sends nothing: an invalid name
    /// is an error of the first call that uses the handle.
    ///
    /// Bounds of a name: 1 to 512 bytes of any UTF-8; in a cluster, without braces. Do not use one
    /// name for different kinds.
    ///
    /// [`CountDownLatch`] has an example.
    #[must_use]
    pub fn count_down_latch(&self, name: &str) -> CountDownLatch {
        CountDownLatch(self.number(name, Family::CountDownLatch))
    }

    /// Makes a handle of the reentrant locks with these names, as one lock that acquires all of
    /// them or none. Never fails and sends nothing: an empty list, a name that occurs twice and an
    /// invalid name are errors of the first call that uses the handle.
    ///
    /// [`MultiLock`] has the details and an example, and [`MultiLock::over`] combines the locks of
    /// several clients.
    #[must_use]
    pub fn multi_lock<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> MultiLock {
        let single = |name: N| self.single(name.as_ref(), &PLAIN);
        MultiLock(Composite::all(names.into_iter().map(single).collect()))
    }

    /// Makes a handle of the read-write lock with this name: a read lock that threads share, and a
    /// write lock that excludes them. Never fails and sends nothing: an invalid name is an error of
    /// the first call that uses the handle.
    ///
    /// Bounds of a name: 1 to 512 bytes of any UTF-8. Do not use one name for locks of different
    /// kinds.
    ///
    /// [`ReadWriteLock`] has the details and examples.
    #[must_use]
    pub fn read_write_lock(&self, name: &str) -> ReadWriteLock {
        let lock = |kind| self.single(name, kind);
        ReadWriteLock {
            read: ReadLock(lock(&READ)),
            write: WriteLock(lock(&WRITE)),
        }
    }

    /// Makes a handle of the leased semaphore with this name: a number of permits, each with a
    /// lease that the watchdog renews. Never fails and sends nothing: an invalid name is an error
    /// of the first call that uses the handle.
    ///
    /// Bounds of a name: 1 to 512 bytes of any UTF-8. Do not use one name for locks or semaphores
    /// of different kinds.
    ///
    /// [`LeasedSemaphore`] has an example.
    #[must_use]
    pub fn leased_semaphore(&self, name: &str) -> LeasedSemaphore {
        LeasedSemaphore(self.single(name, &PERMITS))
    }

    /// Takes over the hold that a guard has given away by
    /// [`OwnedGuard::into_token`]: of this client or another one, in this process or another one.
    /// The client must use the same Redis, database and namespace.
    ///
    /// The new guard has the whole lease, which counts from before this request, the renewals that
    /// were left, and the same [fencing token](OwnedGuard::fencing_token). It is like any other
    /// owned guard: it excludes the threads of this client, too. A token works once.
    ///
    /// A longer time that [`extend`](OwnedGuard::extend) asked for before the give-away is
    /// not shortened. If this process dies, the lock is free after that time.
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
    /// * [`Error::InvalidArgument`] if `token` is incomplete, was made by a version of this
    ///   crate that this one cannot read, or is that of a permit. No error contains a token.
    /// * [`Error::Unavailable`] after three command timeouts without a reply. If Redis may have
    ///   executed the request, the watchdog releases the lock, so the token is spent. A further
    ///   call returns `TokenSpent` then.
    /// * [`Error::TooFewReplicas`] as by [`Lock::lock`](crate::Lock::lock). The lock is released.
    /// * [`Error::Redis`] if Redis refused, and [`Error::WrongType`] if the key has another value.
    /// * [`Error::ShutDown`], and [`Error::Forked`] in a process that was forked from the client's.
    pub fn adopt(&self, token: &str) -> Result<OwnedGuard> {
        let (lock, token) = self.given(token, false)?;
        let held = lock.owned().adopt(&token)?;
        Ok(OwnedGuard::of(lock.shared_name(), held))
    }

    /// Takes over the permit of a [`LeasedSemaphore`](crate::LeasedSemaphore) that a guard has
    /// given away by [`PermitGuard::into_token`]: of this client or another one, in this process or
    /// another one. The client must use the same Redis, database and namespace.
    ///
    /// The permit gets a new [id](PermitGuard::id). The new guard has the whole lease, which counts
    /// from before this request, and the renewals that were left. A token works once.
    ///
    /// # Errors
    ///
    /// Those of [`adopt`](Self::adopt), and [`Error::InvalidArgument`] for the token of a lock.
    pub fn adopt_permit(&self, token: &str) -> Result<PermitGuard> {
        let (semaphore, token) = self.given(token, true)?;
        let held = semaphore.adopt(&token)?;
        Ok(PermitGuard::of(semaphore.shared_name(), held))
    }

    /// What was given away with this token, which must be that of a permit or not.
    fn given(&self, token: &str, is_permit: bool) -> Result<(SingleLock, Token)> {
        let token = Token::parse(token)?;
        let (what, rule) = match is_permit {
            true => ("that of a lock", "pass it to `adopt`"),
            false => ("that of a permit", "pass it to `adopt_permit`"),
        };
        if (*token.kind == PERMITS) != is_permit {
            return Err(Error::argument("token", what, rule).concerning(&token.name));
        }
        let lock = SingleLock::new(Arc::clone(&self.core), &token.name, token.kind);
        Ok((lock, token))
    }
}

impl RedLock {
    /// Makes a handle of the lock with this name on the servers of these clients. Never fails and
    /// sends nothing.
    ///
    /// The first call fails with [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the
    /// number of clients is even or less than three, if a client occurs twice, if two clients have
    /// the same address, or if the name is invalid. One server under two addresses is not noticed:
    /// it grants the lock to only one of its clients.
    ///
    /// [`RedLock`] has an example.
    #[must_use]
    pub fn new(clients: &[LockClient], name: &str) -> Self {
        let single = |client: &LockClient| client.single(name, &PLAIN);
        let locks = clients.iter().map(single).collect();
        Self(Composite::majority(name, locks))
    }
}
