//! The kinds of locks.

use leasehold::Result;

use super::redis_key::Form;
use super::{Clients, LockKind};
use crate::support::prelude::*;

/// The reentrant lock.
pub struct Reentrant;

impl LockKind for Reentrant {
    fn make(client: &Clients, name: &str) -> Arc<dyn Lock> {
        Arc::new(client.reentrant_lock(name))
    }
}

/// The fenced lock, without its token.
pub struct Fenced;

impl LockKind for Fenced {
    fn make(client: &Clients, name: &str) -> Arc<dyn Lock> {
        Arc::new(client.fenced_lock(name))
    }
}

/// The fair lock.
pub struct Fair;

impl LockKind for Fair {
    fn make(client: &Clients, name: &str) -> Arc<dyn Lock> {
        Arc::new(client.fair_lock(name))
    }
}

/// The write lock of a read-write lock.
pub struct Write;

impl LockKind for Write {
    const FORM: Form = Form::ReadWrite;

    fn make(client: &Clients, name: &str) -> Arc<dyn Lock> {
        Arc::new(client.read_write_lock(name).write())
    }
}

/// The read lock of a read-write lock. What it excludes is tested in `read_write`.
pub struct Read;

impl LockKind for Read {
    const FORM: Form = Form::ReadWrite;

    fn make(client: &Clients, name: &str) -> Arc<dyn Lock> {
        Arc::new(client.read_write_lock(name).read())
    }
}

/// A multi-lock of two names.
pub struct Multi;

impl LockKind for Multi {
    fn make(client: &Clients, name: &str) -> Arc<dyn Lock> {
        Arc::new(client.multi_lock(Self::names(name).iter().rev()))
    }

    fn names(name: &str) -> Vec<String> {
        vec![name.to_owned(), format!("{name}:too")]
    }
}

/// A Redlock on several independent servers.
pub struct Red;

impl LockKind for Red {
    fn make(clients: &Clients, name: &str) -> Arc<dyn Lock> {
        Arc::new(RedLock::new(&clients.0, name))
    }
}

/// The reentrant lock behind a user's implementation of the trait, which uses the provided methods.
#[derive(Debug)]
pub struct Wrapped(Box<dyn Lock>);

impl LockKind for Wrapped {
    fn make(client: &Clients, name: &str) -> Arc<dyn Lock> {
        Arc::new(Self(Box::new(client.reentrant_lock(name))))
    }
}

impl Lock for Wrapped {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn lock_with(&self, lease: Lease) -> Result<()> {
        self.0.lock_with(lease)
    }

    fn try_lock(&self, wait: Duration, lease: Lease) -> Result<bool> {
        self.0.try_lock(wait, lease)
    }

    fn lock_interruptibly(&self, lease: Lease, interrupt: &Interrupt) -> Result<()> {
        self.0.lock_interruptibly(lease, interrupt)
    }

    fn unlock(&self) -> Result<()> {
        self.0.unlock()
    }

    fn acquire(&self) -> Result<LockGuard> {
        self.0.acquire()
    }

    fn try_acquire(&self, wait: Duration, lease: Lease) -> Result<Option<LockGuard>> {
        self.0.try_acquire(wait, lease)
    }

    fn hold_count(&self) -> u32 {
        self.0.hold_count()
    }

    fn is_locked(&self) -> Result<bool> {
        self.0.is_locked()
    }

    fn remaining_lease(&self) -> Result<Option<Duration>> {
        self.0.remaining_lease()
    }
}
