//! The read-write lock.

use std::fmt;

use super::debug::Short;
use super::methods::*;

/// A pair of locks: any number of threads hold the read lock at the same time, or one thread holds
/// the write lock. Made by [`LockClient::read_write_lock`](crate::LockClient::read_write_lock).
///
/// [`read`](Self::read) and [`write`](Self::write) return handles that are cheap to clone. Each is
/// a [`Lock`](crate::Lock), with levels, leases and guards of its own.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::LockClient;
///
/// let client = LockClient::connect(url)?;
/// let prices = client.read_write_lock("prices");
///
/// let reading = prices.read().acquire()?;
/// println!("no writer changes the prices");
/// reading.unlock()?;
///
/// let writing = prices.write().acquire()?;
/// println!("this thread alone uses the prices");
/// writing.unlock()?;
/// # Ok(())
/// # }
/// ```
///
/// # Both locks in one thread
///
/// A thread that holds the write lock can acquire the read lock (a downgrade). When it then unlocks
/// the write lock, no other writer gets in before it unlocks the read lock, too:
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::{Error, LockClient};
///
/// let prices = LockClient::connect(url)?.read_write_lock("prices");
/// let writing = prices.write().acquire()?;
/// let reading = prices.read().acquire()?;
/// writing.unlock()?;
///
/// // The other way round it would wait for itself.
/// let upgraded = prices.write().acquire();
/// assert!(matches!(upgraded, Err(Error::Upgrade { .. })));
/// reading.unlock()
/// # }
/// ```
///
/// A thread that holds the read lock and asks for the write lock gets
/// [`Error::Upgrade`](crate::Error::Upgrade) at once.
///
/// # Order
///
/// Readers and writers alike get the locks in the order in which they began to wait: readers that
/// come later do not overtake a writer that waits ([details](crate#6-order)). Readers of one client
/// share what Redis granted to the first of them for a moment, so they send nothing. A writer waits
/// for the readers that have the lock, and for those that join them in this moment.
///
/// So a thread that holds the read lock must not wait for another thread that still has to acquire
/// it: a writer may be between them.
///
/// # Leases
///
/// Readers share a grant only with [`Lease::RENEWED`](crate::Lease::RENEWED), or if they bring that
/// lease with a length of their own, which must not be longer than that of the grant. Readers with
/// other leases have grants of their own. A lease that one reader
/// [extends](crate::LockGuard::extend) is that of the whole grant in Redis, so after a crash the
/// lock is free when the longest lease of its readers is over.
///
/// # Redisson
///
/// The format in Redis is that of Redisson's `RReadWriteLock`. A Java process that shares the name
/// does not know which clients wait: its readers overtake writers of this crate, and its writers
/// are starved by readers as long as some process reads. This crate notifies readers that wait when
/// a writer unlocks and still reads, which Redisson does not: a Java reader that waits for a Java
/// writer then sleeps until the lease of the writer is over. A nested write lock of a Java process
/// adds its lease to what is left, so that ten levels stay locked for ten leases after a crash.
///
/// In Redisson, a read-write lock and another lock of the same name do not exclude each other. Here
/// both fail with [`Error::WrongType`](crate::Error::WrongType), at once, if the other is held.
///
/// # Errors
///
/// Those of [every method](crate::Lock#errors-of-every-method-that-asks-redis), and
/// [`Error::Upgrade`](crate::Error::Upgrade). A thread that has lost one of the two locks must
/// unlock it before it can acquire the other. No method panics.
#[derive(Clone)]
pub struct ReadWriteLock {
    pub(crate) read: ReadLock,
    pub(crate) write: WriteLock,
}

impl ReadWriteLock {
    /// Returns the name of both locks, without the client's namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        self.read.name()
    }

    /// Returns the read lock, which threads hold at the same time. No I/O.
    #[must_use]
    pub fn read(&self) -> ReadLock {
        self.read.clone()
    }

    /// Returns the write lock, which excludes all other threads. No I/O.
    #[must_use]
    pub fn write(&self) -> WriteLock {
        self.write.clone()
    }
}

impl fmt::Debug for ReadWriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |lock: &SingleLock| lock.hold_count(Hold::count_unchanged);
        f.debug_struct("ReadWriteLock")
            .field("name", &Short(self.name()))
            .field("read_count", &count(&self.read.0))
            .field("write_count", &count(&self.write.0))
            .finish()
    }
}

/// The read lock of a [`ReadWriteLock`], from [`ReadWriteLock::read`]. Threads of any number of
/// clients hold it at the same time, while no thread holds the write lock.
///
/// [`is_locked`](Self::is_locked) tells whether any thread of any client holds the read lock.
/// [`ReadWriteLock`] has examples and the errors.
#[derive(Clone)]
pub struct ReadLock(pub(crate) SingleLock);

lock_by_handle!(ReadLock);

/// The write lock of a [`ReadWriteLock`], from [`ReadWriteLock::write`]. One thread holds it, while
/// no other thread of any client holds it or the read lock.
///
/// [`is_locked`](Self::is_locked) tells whether any thread of any client holds the write lock.
/// [`ReadWriteLock`] has examples and the errors.
#[derive(Clone)]
pub struct WriteLock(pub(crate) SingleLock);

lock_by_handle!(WriteLock);
