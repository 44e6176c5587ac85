//! A lock of any kind, and how a thread holds it: with a guard, or with manual `lock` and `unlock`
//! calls.

use std::thread;
use std::time::Duration;

use leasehold::{
    FairLock, FencedGuard, FencedLock, Interrupt, Lease, LeasedSemaphore, Lock, LockClient,
    LockGuard, OwnedGuard, PermitGuard, ReadLock, ReentrantLock, Result, Semaphore, WriteLock,
};
use redis::Pipeline;

use crate::event_log::is_refused_log_in;
use crate::kind::{Access, Kind};

/// The pause before a release is repeated.
const REPEATED: Duration = Duration::from_millis(20);

pub enum TestedLock {
    Plain(ReentrantLock),
    Fenced(FencedLock),
    Fair(FairLock),
    ReadWrite(ReadLock, WriteLock),
    Permits(LeasedSemaphore),
    Semaphore(Semaphore),
}

pub enum HoldStyle {
    Guard(LockGuard),
    Owned(OwnedGuard),
    Fenced(FencedGuard),
    Permit(PermitGuard),
    Permits(Semaphore, u32),
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
            Kind::Semaphore(_) => Self::Semaphore(client.semaphore(key)),
        }
    }

    pub fn acquire(&self, access: Access) -> Result<HoldStyle> {
        match self {
            Self::Plain(lock) => lock.acquire().map(HoldStyle::Guard),
            Self::Fenced(lock) => lock.acquire().map(HoldStyle::Fenced),
            Self::Fair(lock) => lock.acquire().map(HoldStyle::Guard),
            Self::ReadWrite(read, write) => match access {
                Access::Shared => read.acquire().map(HoldStyle::Guard),
                _ => write.acquire().map(HoldStyle::Guard),
            },
            Self::Permits(permits) => permits.acquire().map(HoldStyle::Permit),
            Self::Semaphore(semaphore) => {
                semaphore.acquire(access.permits())?;
                Ok(HoldStyle::Permits(semaphore.clone(), access.permits()))
            }
        }
    }

    /// A guard that belongs to no thread.
    pub fn acquire_owned(&self, access: Access, lease: Lease) -> Result<HoldStyle> {
        match self.lock(access) {
            Some(lock) => lock.acquire_owned(lease).map(HoldStyle::Owned),
            None => self.acquire(access),
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
                _ => write.try_acquire(wait, lease)?.map(HoldStyle::Guard),
            },
            Self::Permits(permits) => permits.try_acquire(wait, lease)?.map(HoldStyle::Permit),
            Self::Semaphore(semaphore) => {
                let taken = semaphore.try_acquire(access.permits(), wait)?;
                taken.then(|| HoldStyle::Permits(semaphore.clone(), access.permits()))
            }
        })
    }

    pub fn lock_with(&self, access: Access, lease: Lease) -> Result<HoldStyle> {
        match (self.lock(access), self) {
            (Some(lock), _) => lock.lock_with(lease).map(|()| HoldStyle::Manual(access)),
            (_, Self::Permits(permits)) => permits.acquire_with(lease).map(HoldStyle::Permit),
            _ => self.acquire(access),
        }
    }

    pub fn try_lock(
        &self,
        access: Access,
        wait: Duration,
        lease: Lease,
    ) -> Result<Option<HoldStyle>> {
        match self.lock(access) {
            Some(lock) => {
                let taken = lock.try_lock(wait, lease)?;
                Ok(taken.then_some(HoldStyle::Manual(access)))
            }
            None => self.try_acquire(access, wait, lease),
        }
    }

    pub fn lock_interruptibly(
        &self,
        access: Access,
        lease: Lease,
        interrupt: &Interrupt,
    ) -> Result<HoldStyle> {
        match self {
            Self::Permits(permits) => {
                let taken = permits.acquire_interruptibly(lease, interrupt);
                taken.map(HoldStyle::Permit)
            }
            Self::Semaphore(semaphore) => {
                semaphore.acquire_interruptibly(access.permits(), interrupt)?;
                Ok(HoldStyle::Permits(semaphore.clone(), access.permits()))
            }
            _ => {
                let lock = self.lock(access).expect("it is a lock");
                let taken = lock.lock_interruptibly(lease, interrupt);
                taken.map(|()| HoldStyle::Manual(access))
            }
        }
    }

    /// True if a thread can acquire it within its own hold.
    pub fn nests(&self) -> bool {
        !matches!(self, Self::Permits(_) | Self::Semaphore(_))
    }

    /// Whether any owner holds the lock, or how many permits are available.
    pub fn state(&self, access: Access) -> Result<String> {
        match self {
            Self::Permits(permits) => Ok(permits.available()?.to_string()),
            Self::Semaphore(semaphore) => Ok(semaphore.available()?.to_string()),
            _ => {
                let lock = self.lock(access).expect("it is a lock");
                Ok(lock.is_locked()?.to_string())
            }
        }
    }

    /// The lock. Not a semaphore, whose permits belong to no thread.
    pub fn lock(&self, access: Access) -> Option<&dyn Lock> {
        match self {
            Self::Plain(lock) => Some(lock),
            Self::Fenced(lock) => Some(lock),
            Self::Fair(lock) => Some(lock),
            Self::ReadWrite(read, write) => match access {
                Access::Shared => Some(read),
                _ => Some(write),
            },
            Self::Permits(_) | Self::Semaphore(_) => None,
        }
    }
}

impl HoldStyle {
    /// Returns false if this process knows that the lock is lost.
    pub fn is_valid(&self, lock: &TestedLock) -> bool {
        match self {
            Self::Guard(guard) => guard.check().is_ok(),
            Self::Owned(guard) => guard.check().is_ok(),
            Self::Fenced(guard) => guard.check().is_ok(),
            Self::Permit(guard) => guard.check().is_ok(),
            // They have no lease, so no process loses them.
            Self::Permits(..) => true,
            Self::Manual(access) => {
                let lock = lock.lock(*access);
                lock.is_some_and(Lock::is_held_by_current_thread)
            }
        }
    }

    /// The fencing token, if the guard has one.
    pub fn token(&self) -> Option<u64> {
        match self {
            Self::Fenced(guard) => Some(guard.fencing_token()),
            Self::Owned(guard) => guard.fencing_token(),
            Self::Guard(_) | Self::Permit(_) | Self::Permits(..) | Self::Manual(_) => None,
        }
    }

    pub fn has_guard(&self) -> bool {
        !matches!(self, Self::Manual(_) | Self::Permits(..))
    }

    /// Gives what belongs to no thread away, and takes it over.
    pub fn through_a_token(self, client: &LockClient) -> Result<Self> {
        match self {
            Self::Owned(guard) => client.adopt(&guard.into_token()?).map(Self::Owned),
            Self::Permit(guard) => client.adopt_permit(&guard.into_token()?).map(Self::Permit),
            other => Ok(other),
        }
    }

    /// True if its thread can acquire the lock again within the hold.
    pub fn nests(&self) -> bool {
        !matches!(self, Self::Owned(_))
    }

    pub fn extend(&self, by: Duration) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.extend(by),
            Self::Owned(guard) => guard.extend(by),
            Self::Fenced(guard) => guard.extend(by),
            Self::Permit(guard) => guard.extend(by),
            Self::Permits(..) | Self::Manual(_) => Ok(()),
        }
    }

    /// True if a query is executed within this hold only: it is a guard, and not one of several.
    pub fn queries(&self, access: Access) -> bool {
        let is_lock = matches!(self, Self::Guard(_) | Self::Owned(_) | Self::Fenced(_));
        is_lock && access == Access::Exclusive
    }

    pub fn query(&self, pipeline: &Pipeline) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.query(pipeline),
            Self::Owned(guard) => guard.query(pipeline),
            Self::Fenced(guard) => guard.query(pipeline),
            Self::Permit(_) | Self::Permits(..) | Self::Manual(_) => Ok(()),
        }
    }

    pub fn unlock(self, lock: &TestedLock) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.unlock(),
            Self::Owned(guard) => guard.unlock(),
            Self::Fenced(guard) => guard.unlock(),
            Self::Permit(guard) => guard.release(),
            // After a refusal, the program has to repeat it.
            Self::Permits(semaphore, permits) => loop {
                match semaphore.release(permits) {
                    Err(error) if is_refused_log_in(&error) => thread::sleep(REPEATED),
                    result => return result,
                }
            },
            Self::Manual(access) => lock.lock(access).map_or(Ok(()), Lock::unlock),
        }
    }
}
