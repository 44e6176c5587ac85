//! One call that acquires a lock.

use std::mem;

use super::single_lock::SingleLock;
use crate::base::{CallBudget, Moment};
use crate::error::{Cause, Error};
use crate::lease::Terms;

/// One call that acquires a lock.
#[derive(Clone, Copy)]
pub(crate) struct LockCall<'a> {
    pub(crate) lock: &'a SingleLock,
    /// The terms of the level.
    pub(crate) terms: Terms,
    pub(crate) budget: &'a CallBudget<'a>,
    /// When the call began to want this lock.
    pub(crate) begun: Moment,
    /// The locks that the thread wants together with this one.
    pub(crate) also: &'a [SingleLock],
}

impl<'a> LockCall<'a> {
    /// The call for this lock alone.
    pub(crate) fn of_one(lock: &'a SingleLock, terms: Terms, budget: &'a CallBudget<'a>) -> Self {
        Self {
            lock,
            terms,
            budget,
            begun: budget.started(),
            also: &[],
        }
    }

    /// When the lease ends of a request that is executed now.
    pub(crate) fn lease_ends(self) -> Moment {
        Moment::now().after(self.terms.length())
    }

    /// True if the thread asks again, although the wait is over and this client has the lock in
    /// Redis: it does so only until a release that the watchdog sends, of an idle grant, or of one
    /// without a reply. `has_asked_again` is set if no such release is known.
    pub(crate) fn awaits_own_release(self, has_asked_again: &mut bool) -> bool {
        let SingleLock { core, key, .. } = self.lock;
        // The release may have ended since the refusal, or is about to be queued.
        !self.budget.call_deadline().is_past()
            && (core.watchdog.is_releasing(key) || !mem::replace(has_asked_again, true))
    }

    /// The error of a call whose grants all arrived after the end of their lease.
    pub(crate) fn too_late_error(self) -> Error {
        let SingleLock { core, key, .. } = self.lock;
        let cause = "every reply arrived after the lease that it granted had ended";
        core.redis.unavailable(key, self.budget, Cause::from(cause))
    }
}
