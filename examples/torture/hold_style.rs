//! A lock of any kind, and how a thread holds it: with a guard, or with manual `lock` and `unlock`
//! calls.

use std::time::Duration;

use leasehold::{
    FairLock, FencedGuard, FencedLock, Interrupt, Lease, LeasedSemaphore, Lock, LockClient,
    LockGuard, PermitGuard, ReadLock, ReentrantLock, Result, WriteLock,
};

use crate::kind::{Access, Kind};

pub enum TestedLock {
    Plain(ReentrantLock),
    Fenced(FencedLock),
    Fair(FairLock),
    ReadWrite(ReadLock, WriteLock),
    Permits(LeasedSemaphore),
}

pub enum HoldStyle {
    Guard(LockGuard),
    Fenced(FencedGuard),
    Permit(PermitGuard),
    Manual(Access),
}

impl TestedLock {
    pub fn new(client: &LockClient, kind: Kind, key: &str) -> Self {
        match kind {
            Kind::Reentrant => Self::Plain(client.reentrant_lock(key)),
            Kind::Fenced => Self::Fenced(client.fenced_lock(key)),
            Kind::Fair => Self::Fair(client.fair_lock(key)),
            Kind::ReadWrite => {
                let lock = client.read_write_lock(key);
                Self::ReadWrite(lock.read(), lock.write())
            }
            Kind::Permits(_) => Self::Permits(client.leased_semaphore(key)),
        }
    }

    pub fn acquire(&self, access: Access) -> Result<HoldStyle> {
        match self {
            Self::Plain(lock) => lock.acquire().map(HoldStyle::Guard),
            Self::Fenced(lock) => lock.acquire().map(HoldStyle::Fenced),
            Self::Fair(lock) => lock.acquire().map(HoldStyle::Guard),
            Self::ReadWrite(read, write) => match access {
                Access::Shared => read.acquire().map(HoldStyle::Guard),
                Access::Exclusive => write.acquire().map(HoldStyle::Guard),
            },
            Self::Permits(permits) => permits.acquire().map(HoldStyle::Permit),
        }
    }

    pub fn try_acquire(
        &self,
        access: Access,
        wait: Duration,
        lease: Lease,
    ) -> Result<Option<HoldStyle>> {
        Ok(match self {
            Self::Plain(lock) => lock.try_acquire(wait, lease)?.map(HoldStyle::Guard),
            Self::Fenced(lock) => lock.try_acquire(wait, lease)?.map(HoldStyle::Fenced),
            Self::Fair(lock) => lock.try_acquire(wait, lease)?.map(HoldStyle::Guard),
            Self::ReadWrite(read, write) => match access {
                Access::Shared => read.try_acquire(wait, lease)?.map(HoldStyle::Guard),
                Access::Exclusive => write.try_acquire(wait, lease)?.map(HoldStyle::Guard),
            },
            Self::Permits(permits) => permits.try_acquire(wait, lease)?.map(HoldStyle::Permit),
        })
    }

    pub fn lock_with(&self, access: Access, lease: Lease) -> Result<HoldStyle> {
        match self.lock(access) {
            Ok(lock) => lock.lock_with(lease).map(|()| HoldStyle::Manual(access)),
            Err(permits) => permits.acquire_with(lease).map(HoldStyle::Permit),
        }
    }

    pub fn try_lock(
        &self,
        access: Access,
        wait: Duration,
        lease: Lease,
    ) -> Result<Option<HoldStyle>> {
        match self.lock(access) {
            Ok(lock) => {
                let taken = lock.try_lock(wait, lease)?;
                Ok(taken.then_some(HoldStyle::Manual(access)))
            }
            Err(_) => self.try_acquire(access, wait, lease),
        }
    }

    pub fn lock_interruptibly(
        &self,
        access: Access,
        lease: Lease,
        interrupt: &Interrupt,
    ) -> Result<HoldStyle> {
        match self.lock(access) {
            Ok(lock) => {
                let taken = lock.lock_interruptibly(lease, interrupt);
                taken.map(|()| HoldStyle::Manual(access))
            }
            Err(permits) => {
                let taken = permits.acquire_interruptibly(lease, interrupt);
                taken.map(HoldStyle::Permit)
            }
        }
    }

    /// True if a thread can acquire it within its own hold.
    pub fn nests(&self) -> bool {
        !matches!(self, Self::Permits(_))
    }

    /// The lock, or the semaphore, whose permits belong to no thread.
    pub fn lock(&self, access: Access) -> std::result::Result<&dyn Lock, &LeasedSemaphore> {
        match self {
            Self::Plain(lock) => Ok(lock),
            Self::Fenced(lock) => Ok(lock),
            Self::Fair(lock) => Ok(lock),
            Self::ReadWrite(read, write) => match access {
                Access::Shared => Ok(read),
                Access::Exclusive => Ok(write),
            },
            Self::Permits(permits) => Err(permits),
        }
    }
}

impl HoldStyle {
    /// Returns false if this process knows that the lock is lost.
    pub fn is_valid(&self, lock: &TestedLock) -> bool {
        match self {
            Self::Guard(guard) => guard.check().is_ok(),
            Self::Fenced(guard) => guard.check().is_ok(),
            Self::Permit(guard) => guard.check().is_ok(),
            Self::Manual(access) => {
                let lock = lock.lock(*access);
                lock.is_ok_and(Lock::is_held_by_current_thread)
            }
        }
    }

    /// The fencing token, if the guard has one.
    pub fn token(&self) -> Option<u64> {
        match self {
            Self::Fenced(guard) => Some(guard.fencing_token()),
            Self::Guard(_) | Self::Permit(_) | Self::Manual(_) => None,
        }
    }

    pub fn has_guard(&self) -> bool {
        !matches!(self, Self::Manual(_))
    }

    pub fn extend(&self, by: Duration) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.extend(by),
            Self::Fenced(guard) => guard.extend(by),
            Self::Permit(guard) => guard.extend(by),
            Self::Manual(_) => Ok(()),
        }
    }

    pub fn unlock(self, lock: &TestedLock) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.unlock(),
            Self::Fenced(guard) => guard.unlock(),
            Self::Permit(guard) => guard.release(),
            Self::Manual(access) => lock.lock(access).map_or(Ok(()), Lock::unlock),
        }
    }
}
