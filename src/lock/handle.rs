//! The handle of one lock, and the ways to acquire a lock.

use std::sync::Arc;
use std::time::Duration;

use super::acquire::acquire;
use super::parts::{HeldPart, Needed};
use super::{LockGuard, hold_requests, release};
use crate::base::call_budget::CallBudget;
use crate::base::interrupt::Interrupt;
use crate::base::key::LockKey;
use crate::base::owner::ThreadId;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::local::Hold;

/// The kinds of locks that differ in their requests to Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    Plain,
    /// Each hold has a fencing token.
    Fenced,
}

/// A lock of one name at one client.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(super) core: Arc<Core>,
    pub(super) key: LockKey,
    pub(super) kind: LockKind,
}

/// The ways to acquire a lock: one name, several names, or a majority of several servers.
pub(super) trait Acquire {
    type Output;

    /// The client whose timeouts set the deadlines of a call. Fails if the lock is invalid.
    fn check(&self) -> Result<&Arc<Core>>;

    /// Acquires the lock; `None` if the budget ends first.
    fn acquire(&self, lease: Lease, budget: &CallBudget) -> Result<Option<Self::Output>>;

    fn lock_with(&self, lease: Lease) -> Result<Self::Output> {
        self.wait_for(lease, &self.check()?.budget_to_lock())
    }

    fn try_lock(&self, wait: Duration, lease: Lease) -> Result<Option<Self::Output>> {
        let budget = CallBudget::with_wait(wait, self.check()?.command_timeout);
        self.acquire(lease, &budget)
    }

    fn lock_interruptibly(&self, lease: Lease, interrupt: &Interrupt) -> Result<Self::Output> {
        self.check()?;
        self.wait_for(lease, &CallBudget::until_interrupted(interrupt))
    }

    fn try_lock_interruptibly(
        &self,
        wait: Duration,
        lease: Lease,
        interrupt: &Interrupt,
    ) -> Result<Option<Self::Output>> {
        let budget = CallBudget::with_wait(wait, self.check()?.command_timeout);
        self.acquire(lease, &budget.with_interrupt(interrupt))
    }

    fn wait_for(&self, lease: Lease, budget: &CallBudget) -> Result<Self::Output> {
        loop {
            if let Some(held) = self.acquire(lease, budget)? {
                return Ok(held);
            }
        }
    }
}

impl Acquire for Handle {
    type Output = HeldPart;

    /// Never fails: [`acquire`](Self::acquire) checks the lock.
    fn check(&self) -> Result<&Arc<Core>> {
        Ok(&self.core)
    }

    fn acquire(&self, lease: Lease, budget: &CallBudget) -> Result<Option<HeldPart>> {
        acquire(self, lease, budget)
    }
}

impl Handle {
    pub(crate) fn new(core: Arc<Core>, name: &str, kind: LockKind) -> Self {
        Self {
            key: LockKey::new(&core.namespace, name),
            core,
            kind,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.key.name()
    }

    pub(super) fn unlock(&self) -> Result<()> {
        self.key.check()?;
        let hold = self.hold_to_unlock().ok_or_else(|| Error::NotHeld {
            lock: self.name().into(),
        })?;
        release::release(&self.core, &hold, None, &self.core.budget_to_unlock())
    }

    pub(super) fn guard(&self, held: HeldPart) -> LockGuard {
        LockGuard::new(self.key.shared_name(), vec![held], Needed::All)
    }

    /// The hold of this thread that it has not unlocked yet, lost or not.
    pub(super) fn hold(&self) -> Option<Arc<Hold>> {
        if !self.core.is_same_process() {
            return None;
        }
        self.core.queue.hold_of(self.key.key(), ThreadId::current())
    }

    /// The hold of this thread, lost or not, if it has a level without a guard. `unlock` releases
    /// only such levels.
    pub(super) fn hold_to_unlock(&self) -> Option<Arc<Hold>> {
        self.hold().filter(|hold| hold.unguarded() > 0)
    }

    /// The `count` of this thread's hold; 0 without a hold.
    pub(super) fn hold_count(&self, count: fn(&Hold) -> u32) -> u32 {
        self.hold().map_or(0, |hold| count(&hold))
    }

    pub(super) fn parts(&self) -> &[Self] {
        std::slice::from_ref(self)
    }

    /// The server that has the lock, if the client knows it, or else the deployment. No I/O.
    pub(super) fn node(&self) -> Arc<str> {
        let redis = &self.core.redis;
        if self.core.is_same_process() {
            redis.name(&self.key)
        } else {
            // In a forked process, a mutex that another thread had locked stays locked.
            redis.deployment()
        }
    }

    pub(super) fn is_locked(&self) -> Result<bool> {
        Ok(hold_requests::inspect(&self.core, &self.key)?.is_some())
    }

    pub(super) fn remaining_lease(&self) -> Result<Option<Duration>> {
        let status = hold_requests::inspect(&self.core, &self.key)?;
        Ok(status.map(|hold| hold.left()))
    }
}
