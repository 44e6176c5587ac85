//! What every handle of a lock is made of.

use std::sync::Arc;
use std::time::Duration;

use super::acquire::acquire;
use super::held::{Held, Needed};
use super::{LockGuard, hold_requests, release};
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::interrupt::Interrupt;
use crate::base::key::LockKey;
use crate::base::owner::ThreadId;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::local::Hold;

/// What one kind of lock asks of Redis that another does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    Plain,
    /// With a fencing token for each hold.
    Fenced,
}

/// A lock of one kind under one name.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(super) core: Arc<Core>,
    pub(super) key: LockKey,
    pub(super) kind: LockKind,
}

/// The ways to take a lock, for whatever is one lock or several.
pub(super) trait Acquire {
    type Output;

    /// The client by whose time-outs a call is measured, if there can be such a lock.
    fn check(&self) -> Result<&Arc<Core>>;

    /// Takes it; `None` if the budget ends before.
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
        let core = self.check()?;
        if Moment::now().after(wait) == Moment::NEVER {
            let budget = core.budget_to_lock().with_interrupt(interrupt);
            return self.wait_for(lease, &budget).map(Some);
        }
        let budget = CallBudget::with_wait(wait, core.command_timeout).with_interrupt(interrupt);
        self.acquire(lease, &budget)
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
    type Output = Held;

    /// What can be wrong with it is told by the attempt.
    fn check(&self) -> Result<&Arc<Core>> {
        Ok(&self.core)
    }

    fn acquire(&self, lease: Lease, budget: &CallBudget) -> Result<Option<Held>> {
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

    pub(super) fn guard(&self, held: Held) -> LockGuard {
        LockGuard::new(self.key.shared_name(), vec![held], Needed::All)
    }

    /// What this thread holds, lost or not, and has not unlocked.
    pub(super) fn hold(&self) -> Option<Arc<Hold>> {
        if !self.core.is_same_process() {
            return None;
        }
        self.core.queue.hold_of(self.key.key(), ThreadId::current())
    }

    /// What this thread holds, lost or not, if it has a level without a guard: `unlock` gives back
    /// no other level.
    pub(super) fn hold_to_unlock(&self) -> Option<Arc<Hold>> {
        self.hold().filter(|hold| hold.unguarded() > 0)
    }

    /// `count` of what this thread holds.
    pub(super) fn hold_count(&self, count: fn(&Hold) -> u32) -> u32 {
        self.hold().map_or(0, |hold| count(&hold))
    }

    pub(super) fn parts(&self) -> &[Self] {
        std::slice::from_ref(self)
    }

    /// The server that has the lock, as far as is known.
    pub(super) fn node(&self) -> Arc<str> {
        let redis = &self.core.redis;
        if self.core.is_same_process() {
            redis.name(&self.key)
        } else {
            // After a fork, a mutex that another thread of the parent held is never released here.
            redis.deployment()
        }
    }

    pub(super) fn is_locked(&self) -> Result<bool> {
        Ok(hold_requests::inspect(&self.core, &self.key)?.is_some())
    }

    pub(super) fn remaining_lease(&self) -> Result<Option<Duration>> {
        let found = hold_requests::inspect(&self.core, &self.key)?;
        Ok(found.map(|hold| hold.left()))
    }
}
