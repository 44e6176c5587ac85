//! A lock of either kind, and how a thread holds it: with a guard, or with manual `lock` and
//! `unlock` calls.

use std::time::Duration;

use leasehold::{
    FairLock, FencedGuard, FencedLock, Interrupt, Lease, Lock, LockClient, LockGuard,
    ReentrantLock, Result,
};

use crate::kind::Kind;

pub enum TestedLock {
    Plain(ReentrantLock),
    Fenced(FencedLock),
    Fair(FairLock),
}

pub enum HoldStyle {
    Guard(LockGuard),
    Fenced(FencedGuard),
    Manual,
}

impl TestedLock {
    pub fn new(client: &LockClient, kind: Kind, key: &str) -> Self {
        match kind {
            Kind::Reentrant => Self::Plain(client.reentrant_lock(key)),
            Kind::Fenced => Self::Fenced(client.fenced_lock(key)),
            Kind::Fair => Self::Fair(client.fair_lock(key)),
        }
    }

    pub fn acquire(&self) -> Result<HoldStyle> {
        Ok(match self {
            Self::Plain(lock) => HoldStyle::Guard(lock.acquire()?),
            Self::Fenced(lock) => HoldStyle::Fenced(lock.acquire()?),
            Self::Fair(lock) => HoldStyle::Guard(lock.acquire()?),
        })
    }

    pub fn try_acquire(&self, wait: Duration, lease: Lease) -> Result<Option<HoldStyle>> {
        Ok(match self {
            Self::Plain(lock) => lock.try_acquire(wait, lease)?.map(HoldStyle::Guard),
            Self::Fenced(lock) => lock.try_acquire(wait, lease)?.map(HoldStyle::Fenced),
            Self::Fair(lock) => lock.try_acquire(wait, lease)?.map(HoldStyle::Guard),
        })
    }

    pub fn lock_with(&self, lease: Lease) -> Result<HoldStyle> {
        self.lock().lock_with(lease).map(|()| HoldStyle::Manual)
    }

    pub fn try_lock(&self, wait: Duration, lease: Lease) -> Result<Option<HoldStyle>> {
        let taken = self.lock().try_lock(wait, lease)?;
        Ok(taken.then_some(HoldStyle::Manual))
    }

    pub fn lock_interruptibly(&self, lease: Lease, interrupt: &Interrupt) -> Result<HoldStyle> {
        let taken = self.lock().lock_interruptibly(lease, interrupt);
        taken.map(|()| HoldStyle::Manual)
    }

    pub fn unlock(&self) -> Result<()> {
        self.lock().unlock()
    }

    fn lock(&self) -> &dyn Lock {
        match self {
            Self::Plain(lock) => lock,
            Self::Fenced(lock) => lock,
            Self::Fair(lock) => lock,
        }
    }
}

impl HoldStyle {
    /// Returns false if this process knows that the lock is lost.
    pub fn is_valid(&self, lock: &TestedLock) -> bool {
        match self {
            Self::Guard(guard) => guard.check().is_ok(),
            Self::Fenced(guard) => guard.check().is_ok(),
            Self::Manual => lock.lock().is_held_by_current_thread(),
        }
    }

    /// The fencing token, if the guard has one.
    pub fn token(&self) -> Option<u64> {
        match self {
            Self::Fenced(guard) => Some(guard.fencing_token()),
            Self::Guard(_) | Self::Manual => None,
        }
    }

    pub fn has_guard(&self) -> bool {
        !matches!(self, Self::Manual)
    }

    pub fn extend(&self, by: Duration) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.extend(by),
            Self::Fenced(guard) => guard.extend(by),
            Self::Manual => Ok(()),
        }
    }

    pub fn unlock(self, lock: &TestedLock) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.unlock(),
            Self::Fenced(guard) => guard.unlock(),
            Self::Manual => lock.unlock(),
        }
    }
}
