//! A lock of one name at one client.

use std::sync::Arc;

use super::{Channel, HeldLock, Release};
use crate::base::{CallBudget, HolderId, LockKey, Moment, OwnerId};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lease::{Renewals, Terms};
use crate::local::{Entered, Hold, LockId, Unlocks};
use crate::observe::long_wait;
use crate::protocol::Kind;

/// A lock of one name at one client, and what a call wants of it. Locks of several names or servers
/// are made of these.
#[derive(Clone)]
pub(crate) struct SingleLock {
    pub(crate) core: Arc<Core>,
    pub(crate) key: LockKey,
    pub(crate) kind: &'static Kind,
    pub(crate) id: LockId,
    /// How many permits a call acquires; 1 for locks.
    pub(crate) permits: usize,
    /// How many permits the semaphore has at least; `None` for locks.
    pub(crate) total: Option<u32>,
    /// The guard that its next hold belongs to; `None` if that belongs to the calling thread.
    pub(crate) guard: Option<HolderId>,
}

impl SingleLock {
    pub(crate) fn new(core: Arc<Core>, name: &str, kind: &'static Kind) -> Self {
        let key = kind.names(&core.namespace, name, &core.owner_prefix);
        let id = LockId::new(core.number, &key);
        Self {
            core,
            key,
            kind,
            id,
            permits: 1,
            total: None,
            guard: None,
        }
    }

    /// This lock for a hold of this guard.
    pub(crate) fn for_guard(&self, guard: HolderId) -> Self {
        Self {
            guard: Some(guard),
            ..self.clone()
        }
    }

    /// This lock for a hold of a new guard.
    pub(crate) fn owned(&self) -> Self {
        self.for_guard(HolderId::new_guard())
    }

    /// Who holds or acquires the lock by this value.
    pub(crate) fn holder(&self) -> HolderId {
        self.guard.unwrap_or_else(HolderId::current_thread)
    }

    pub(crate) fn name(&self) -> &str {
        self.key.name()
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.key.shared_name()
    }

    /// The server that has the lock, if the client knows it, or else the deployment. No I/O.
    pub(crate) fn node(&self) -> Arc<str> {
        self.core.node(&self.key)
    }

    /// The servers of the lock, for `Debug`.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Arc<str>> {
        std::iter::once(self.node())
    }

    /// Fails if the name is invalid, and in a forked process.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.core.check_process(self.name())?;
        self.key.check()
    }

    /// As [`check_process`](Self::check_process), and fails after a shutdown.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_process()?;
        self.core.check_not_shut_down(self.name())
    }

    /// The budget of a call that waits for this lock: it also ends when the client is shut down.
    pub(super) fn until_shutdown<'c>(&'c self, mut budget: CallBudget<'c>) -> CallBudget<'c> {
        budget.end_at_shutdown(&self.core.shutdown);
        budget
    }

    /// The budget of a call that acquires this lock: as [`until_shutdown`](Self::until_shutdown),
    /// its wait is counted, and reported if it is long.
    pub(super) fn to_acquire<'c>(&'c self, budget: CallBudget<'c>) -> CallBudget<'c> {
        self.until_shutdown(budget)
            .counted(&self.core.observer.counters)
            .reporting(self.name(), long_wait)
    }

    /// Takes the ticket, if its holder has no hold and the ticket is free.
    pub(crate) fn enter_queue(&self, now: Moment) -> Entered {
        let queue = &self.core.queue;
        queue.enter(&self.id, self.holder(), self.kind.is_shared, now)
    }

    /// A new owner id for a grant of this lock.
    pub(crate) fn new_owner(&self) -> OwnerId {
        match self.permits {
            1 => (self.kind.new_owner)(&self.core.owner_prefix),
            permits => OwnerId::of_permits(permits),
        }
    }

    /// The number of holds that may share a grant, of which this many are expected. A fixed lease
    /// is not handed over, and a client that lingers wants its next hold, too.
    pub(crate) fn holds_of_a_grant(&self, terms: Terms, expected: usize) -> usize {
        match terms.renewals {
            Renewals::None => 1,
            _ => expected + usize::from(!self.core.linger.is_zero()),
        }
    }

    /// The hold of its holder that is not unlocked yet, lost or not. The caller has checked
    /// the process.
    pub(crate) fn hold(&self) -> Option<Arc<Hold>> {
        let queue = &self.core.queue;
        queue.hold_of(&self.id, self.holder(), self.kind.is_shared)
    }

    /// The `count` of this thread's hold; 0 in a forked process.
    pub(crate) fn hold_count(&self, count: fn(&Hold) -> u32) -> u32 {
        if !self.core.is_same_process() {
            return 0;
        }
        self.hold().map_or(0, |hold| count(&hold))
    }

    /// Unlocks the newest level of this thread that has no guard.
    pub(crate) fn unlock(&self) -> Result<()> {
        self.check_process()?;
        let hold = self.hold().filter(|hold| hold.unguarded() > 0);
        let hold = hold.ok_or_else(|| self.not_held())?;
        let release = Release::begin(&self.core, &hold, Unlocks::Newest, self.core.linger);
        release.run(|| self.core.budget_to_unlock())
    }

    /// The error of a thread that has no hold, or has one only by guards. The caller has checked
    /// the process.
    pub(crate) fn not_held(&self) -> Error {
        Error::not_held(self.name(), self.hold().is_some())
    }

    /// True if a thread need not listen before its first request: it enters a line, or there is no
    /// subscription.
    pub(super) fn needs_no_listener(&self) -> bool {
        self.kind.has_line || !self.core.subscriber.is_live(&self.key, self.key.channel())
    }

    /// The channel that announces releases of the lock.
    pub(crate) fn channel(&self) -> Channel<'_> {
        Channel::of(&self.core, &self.key)
    }

    /// The first level of a new hold of this thread.
    pub(super) fn first_level(&self, hold: Arc<Hold>, budget: &CallBudget) -> HeldLock {
        hold.count_begin(&self.core.observer.counters, || budget.elapsed());
        HeldLock::first(&self.core, hold)
    }
}
