//! The plain lock.

use std::sync::Arc;
use std::time::Duration;

use super::acquire::{Held, acquire};
use super::{Lock, LockGuard, release, standing};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::key::LockKey;
use crate::lease::Lease;
use crate::local::Hold;
use crate::owner::ThreadId;
use crate::patience::Patience;

/// A reentrant lock: a thread that holds it can take it again, and frees it with the last unlock.
/// Made by [`LockClient::reentrant_lock`](crate::LockClient::reentrant_lock).
///
/// The handle is cheap; clones, and handles of the same name from the same client, are the same
/// lock. In Redis it is Redisson's `RLock`: a hash of owner to hold count. Threads of one process
/// get it in the order in which they came; between processes whoever is first after a release has it.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::{Lock, LockClient};
///
/// let client = LockClient::connect(url)?;
/// let lock = client.reentrant_lock("order:pay");
/// lock.lock()?;
/// lock.lock()?;
/// assert_eq!(lock.hold_count(), 2);
/// lock.unlock()?;
/// lock.unlock()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ReentrantLock {
    core: Arc<Core>,
    key: LockKey,
}

impl ReentrantLock {
    pub(crate) fn new(core: Arc<Core>, name: &str) -> Self {
        Self {
            key: LockKey::new(&core.namespace, name),
            core,
        }
    }

    /// What this thread holds, lost or not, and has not unlocked.
    fn hold(&self) -> Option<Arc<Hold>> {
        if !self.core.is_at_home() {
            return None;
        }
        self.core.queue.hold_of(self.key.key(), ThreadId::current())
    }

    fn wait_for(&self, lease: Lease, patience: &Patience) -> Result<Held> {
        loop {
            if let Some(held) = acquire(&self.core, &self.key, lease, patience)? {
                return Ok(held);
            }
        }
    }

    fn try_for(&self, wait: Duration, lease: Lease) -> Result<Option<Held>> {
        let patience = Patience::at_most(wait, self.core.command_timeout);
        acquire(&self.core, &self.key, lease, &patience)
    }
}

impl Lock for ReentrantLock {
    fn name(&self) -> &str {
        self.key.name()
    }

    fn lock_with(&self, lease: Lease) -> Result<()> {
        self.wait_for(lease, &self.core.patience_to_lock())
            .map(drop)
    }

    fn try_lock(&self, wait: Duration, lease: Lease) -> Result<bool> {
        Ok(self.try_for(wait, lease)?.is_some())
    }

    fn lock_interruptibly(&self, lease: Lease, interrupt: &Interrupt) -> Result<()> {
        self.wait_for(lease, &Patience::until_interrupted(interrupt))
            .map(drop)
    }

    fn unlock(&self) -> Result<()> {
        self.key.check()?;
        let hold = self.hold().ok_or_else(|| Error::NotHeld {
            lock: self.key.name().into(),
        })?;
        release::release(&self.core, &hold, None, &self.core.patience_to_unlock())
    }

    fn acquire(&self) -> Result<LockGuard> {
        let held = self.wait_for(Lease::RENEWED, &self.core.patience_to_lock())?;
        Ok(LockGuard::new(&self.core, held))
    }

    fn try_acquire(&self, wait: Duration, lease: Lease) -> Result<Option<LockGuard>> {
        let held = self.try_for(wait, lease)?;
        Ok(held.map(|held| LockGuard::new(&self.core, held)))
    }

    fn hold_count(&self) -> u32 {
        self.hold().map_or(0, |hold| hold.count())
    }

    fn is_locked(&self) -> Result<bool> {
        Ok(standing::inspect(&self.core, &self.key)?.is_some())
    }

    fn remaining_lease(&self) -> Result<Option<Duration>> {
        let found = standing::inspect(&self.core, &self.key)?;
        Ok(found.map(|hold| {
            hold.millis_left
                .map_or(Duration::MAX, Duration::from_millis)
        }))
    }
}
