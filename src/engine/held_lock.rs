//! A level that a thread holds of a lock.

use std::sync::Arc;
use std::time::Duration;

use super::grant_request::Renewing;
use super::release::Release;
use crate::base::CallBudget;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::local::{Hold, LevelId, Unlocks};

/// One level of a hold of this thread. Dropping it releases nothing.
#[derive(Clone)]
pub(crate) struct HeldLock {
    pub(crate) core: Arc<Core>,
    pub(crate) hold: Arc<Hold>,
    pub(crate) level: LevelId,
}

impl HeldLock {
    /// The first level of a hold.
    pub(crate) fn first(core: &Arc<Core>, hold: Arc<Hold>) -> Self {
        Self {
            core: Arc::clone(core),
            hold,
            level: Hold::FIRST_LEVEL,
        }
    }

    /// True if the thread had no hold before.
    pub(crate) fn is_new(&self) -> bool {
        self.level == Hold::FIRST_LEVEL
    }

    /// Fails unless the lock is held.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_process()?;
        self.hold.check()
    }

    /// Fails in a process that was forked from the client's. Called first, because in such a
    /// process a mutex may stay locked indefinitely.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.core.check_process(self.hold.key().name())
    }

    /// Fails for permits, and for an exclusive hold if its thread also has a shared one of the same
    /// lock: after the unlock, that one would stay beside what is left in Redis.
    pub(crate) fn check_can_be_kept(&self) -> Result<()> {
        self.check_process()?;
        let hold = &self.hold;
        if !hold.grant().kind.has_ticket {
            let rule = "a permit cannot be kept after its release";
            return Err(Error::misused(hold.key().name(), rule));
        }
        let reader = || self.core.queue.hold_of(&hold.lock, hold.holder, true);
        if !hold.is_shared() && reader().is_some_and(|reader| reader.check().is_ok()) {
            let rule = "this thread also holds the read lock; unlock it before `unlock_after` of \
                        the write lock";
            return Err(Error::misused(hold.key().name(), rule));
        }
        Ok(())
    }

    /// What is left of the lease by the local clock. Ends no hold.
    pub(crate) fn left(&self) -> Result<Duration> {
        self.check_process()?;
        self.hold.left()
    }

    /// Prolongs the lease to at least this many milliseconds. With 0, Redis only confirms that it
    /// has the lock. A lock that Redis does not have any more ends as lost.
    pub(crate) fn extend(&self, millis: u64, budget: &CallBudget) -> Result<()> {
        self.check()?;
        self.to_renew(millis).send(budget)?;
        self.hold.check()
    }

    /// The renewal that [`extend`](Self::extend) sends.
    pub(crate) fn to_renew(&self, millis: u64) -> Renewing<'_> {
        let grant = self.hold.grant();
        let renewal = grant.renewal(millis, Some(self.hold.number()));
        Renewing {
            core: &self.core,
            grant,
            renewal,
        }
    }

    /// Releases the level. A release without a reply goes on in the background. `budget` is made
    /// only if Redis is asked.
    pub(crate) fn release(&self, budget: impl FnOnce() -> CallBudget<'static>) -> Result<()> {
        self.unlock(Unlocks::Level(self.level), budget)
    }

    pub(super) fn unlock(
        &self,
        unlocks: Unlocks,
        budget: impl FnOnce() -> CallBudget<'static>,
    ) -> Result<()> {
        self.check_process()?;
        Release::begin(&self.core, &self.hold, unlocks, self.core.linger).run(budget)
    }

    /// Releases the level of an owned hold without a request of this thread.
    pub(crate) fn release_dropped(&self) -> Result<()> {
        Release::of_dropped(&self.core, &self.hold)
    }
}
