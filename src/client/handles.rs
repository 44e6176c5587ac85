//! The handles that a client makes: locks of each kind, semaphores, latches.

use std::sync::Arc;

use super::LockClient;
use crate::error::{Error, Result};
use crate::lock::{
    CountDownLatch, FairLock, FencedLock, LeasedSemaphore, Lock, MultiLock, ReadWriteLock,
    ReentrantLock, Semaphore,
};

/// Makes a handle of the lock with a name.
type MakeLock = fn(&LockClient, &str) -> Box<dyn Lock>;

/// The kinds of locks that are made by the name of the kind, as in `#[locked(kind = fair)]` and in
/// the command.
const KINDS: [(&str, MakeLock); 5] = [
    ("reentrant", |client, name| {
        Box::new(client.reentrant_lock(name))
    }),
    ("fenced", |client, name| Box::new(client.fenced_lock(name))),
    ("fair", |client, name| Box::new(client.fair_lock(name))),
    ("read", |client, name| {
        Box::new(client.read_write_lock(name).read())
    }),
    ("write", |client, name| {
        Box::new(client.read_write_lock(name).write())
    }),
];

/// Makes a handle of the lock with this name and of this kind: `reentrant`, `fenced`, `fair`,
/// `read` or `write`.
///
/// # Errors
///
/// [`Error::Config`] for another kind.
pub fn lock_of_kind(client: &LockClient, kind: &str, name: &str) -> Result<Box<dyn Lock>> {
    let found = KINDS.iter().find(|(known, _)| *known == kind);
    found
        .map(|(_, make)| make(client, name))
        .ok_or_else(|| Error::Config {
            field: "kind",
            value: format!("{kind:?}"),
            rule: format!("must be one of {:?}", KINDS.map(|(known, _)| known)),
        })
}

impl LockClient {
    /// Makes a handle of the reentrant lock with this name. Never fails and sends nothing: an
    /// invalid name is an error of the first call that uses the handle.
    ///
    /// Bounds of a name: 1 to 512 bytes of any UTF-8. Do not use one name for locks of different
    /// kinds.
    ///
    /// [`ReentrantLock`] has an example.
    #[must_use]
    pub fn reentrant_lock(&self, name: &str) -> ReentrantLock {
        ReentrantLock::new(Arc::clone(&self.core), name)
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
        FencedLock::new(Arc::clone(&self.core), name)
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
        FairLock::new(Arc::clone(&self.core), name)
    }

    /// Makes a handle of the semaphore with this name. Never fails and sends nothing: an invalid
    /// name is an error of the first call that uses the handle.
    ///
    /// Bounds of a name: 1 to 512 bytes of any UTF-8. Do not use one name for different kinds.
    ///
    /// [`Semaphore`] has an example.
    #[must_use]
    pub fn semaphore(&self, name: &str) -> Semaphore {
        Semaphore::new(Arc::clone(&self.core), name)
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
        CountDownLatch::new(Arc::clone(&self.core), name)
    }

    /// Makes a handle of the reentrant locks with these names, as one lock that acquires all of
    /// them or none. Never fails and sends nothing: an empty list, a name that occurs twice and an
    /// invalid name are errors of the first call that uses the handle.
    ///
    /// [`MultiLock`] has the details and an example, and [`MultiLock::over`] combines the locks of
    /// several clients.
    #[must_use]
    pub fn multi_lock<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> MultiLock {
        MultiLock::new(&self.core, names)
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
        ReadWriteLock::new(&self.core, name)
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
        LeasedSemaphore::new(Arc::clone(&self.core), name)
    }
}
