//! The holds on one lock that do not exclude each other, and the grant that further ones join.
//!
//! A reader gives its ticket back when it has its hold. Each thread that waits behind it and wants
//! to read gets a hold on the same grant in the same step, up to the first writer. A writer gets
//! the ticket when no reader is left. A thread that writes and begins to read uses the ticket of
//! its write hold; its write lock is not handed over while a reader is there.
//!
//! An adopted hold stands here, too, also an exclusive one: Redis gave it to its guard without the
//! ticket. So threads that want an exclusive hold wait for its end. A thread that requested the
//! lock before the adopt has the ticket meanwhile, and Redis refuses it. If Redis grants the lock
//! to that thread, it has lost the adopted hold, which then ends here, too
//! (`Entry::excluded_by`). The grant of an adopted hold is not handed over, because its hold has no
//! ticket.

use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;

use super::{Entry, LockId, Locks, Waiter};
use crate::base::owner::Liveness;
use crate::base::{HolderId, Moment};
use crate::lease::Terms;
use crate::local::grant::{Grant, Hold};

/// For how long after its reply a grant is joined by further threads. Then the next thread requests
/// a grant of its own, so that a waiting writer of another client can keep it out.
const JOINED: Duration = Duration::from_millis(50);

/// The shared holds of the threads of one client.
#[derive(Debug, Default)]
pub(super) struct Readers {
    by_holder: HashMap<HolderId, Arc<Hold>>,
    /// The newest grant whose lease is renewed.
    newest: Option<Arc<Grant>>,
}

impl Readers {
    pub(super) fn is_empty(&self) -> bool {
        self.by_holder.is_empty()
    }

    pub(super) fn holds(&self) -> impl ExactSizeIterator<Item = &Arc<Hold>> {
        self.by_holder.values()
    }

    pub(super) fn of(&self, holder: HolderId) -> Option<&Arc<Hold>> {
        self.by_holder.get(&holder)
    }

    /// The hold of a thread that does not know of it yet.
    pub(super) fn untaken(&self, holder: HolderId) -> Option<&Arc<Hold>> {
        self.of(holder).filter(|hold| !hold.is_taken())
    }

    pub(super) fn has(&self, hold: &Arc<Hold>) -> bool {
        let own = self.of(hold.holder);
        own.is_some_and(|own| Arc::ptr_eq(own, hold))
    }

    /// True if this is the only hold.
    pub(super) fn is_only(&self, hold: &Arc<Hold>) -> bool {
        self.has(hold) && self.by_holder.len() == 1
    }

    /// Adds the first hold on a grant.
    pub(super) fn insert(&mut self, hold: &Arc<Hold>) {
        self.by_holder.insert(hold.holder, Arc::clone(hold));
        // An owned hold has its grant for itself.
        if hold.grant().is_renewed() && !hold.holder.is_guard() {
            self.newest = Some(hold.grant());
        }
    }

    pub(super) fn remove(&mut self, hold: &Arc<Hold>) -> Option<Arc<Hold>> {
        let is_known = self.has(hold);
        let removed = is_known.then(|| self.by_holder.remove(&hold.holder));
        self.newest.take_if(|_| self.by_holder.is_empty());
        removed.flatten()
    }

    /// Lets a thread join the newest grant, if it may be joined with these terms. An owned hold
    /// never does.
    fn join(&mut self, holder: HolderId, liveness: Liveness, terms: Terms) -> Option<Arc<Hold>> {
        let grant = self.newest.as_ref()?;
        let now = Moment::now();
        if holder.is_guard() || now >= grant.granted.replied.after(JOINED) {
            return None;
        }
        let hold = grant.share(holder, liveness, terms, now)?;
        self.by_holder.insert(holder, Arc::clone(&hold));
        Some(hold)
    }
}

impl Entry {
    /// The shared hold that a thread was given while it waited, or one that it gets now if it has
    /// the ticket.
    pub(super) fn shared_hold(
        &mut self,
        holder: HolderId,
        terms: Terms,
        has_ticket: bool,
    ) -> Option<Arc<Hold>> {
        let given = self.readers.untaken(holder).cloned();
        given.or_else(|| {
            let liveness = Liveness::of(holder);
            let joined = has_ticket.then(|| self.readers.join(holder, liveness, terms));
            joined.flatten()
        })
    }
}

impl Locks {
    /// Gives a waiting thread a hold on the grant that other threads share. It needs no ticket
    /// then.
    pub(super) fn join(&mut self, lock: &LockId, waiter: &Arc<Waiter>) -> bool {
        let wanted = &waiter.wanted;
        let is_joined = wanted.kind.is_shared
            && self.entries.get_mut(lock).is_some_and(|entry| {
                let (holder, liveness) = (waiter.holder, waiter.liveness.clone());
                let joined = entry.readers.join(holder, liveness, wanted.terms);
                joined.is_some()
            });
        if is_joined {
            self.assign(Arc::clone(waiter));
        }
        is_joined
    }
}
