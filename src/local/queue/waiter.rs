//! A thread that waits in the local queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::LockId;
use crate::base::list::List;
use crate::base::owner::{Liveness, ThreadId};
use crate::base::parker::Unparker;
use crate::lease::Terms;

/// A thread that waits for the tickets of some locks.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(super) thread: ThreadId,
    pub(super) liveness: Liveness,
    pub(super) locks: List<LockId>,
    pub(super) terms: List<Terms>,
    pub(super) needed: usize,
    /// The kind of lock.
    pub(super) kind: &'static str,
    /// The thread wants a hold that does not exclude other shared ones.
    pub(super) is_shared: bool,
    unparker: Unparker,
    /// The thread has the tickets. Set under the queue's mutex.
    is_assigned: AtomicBool,
}

/// What a thread wants: locks that it does not hold yet.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) locks: List<LockId>,
    /// For each lock.
    pub(crate) terms: List<Terms>,
    /// How many of the locks are needed.
    pub(crate) needed: usize,
    /// The kind of lock.
    pub(crate) kind: &'static str,
    /// The holds do not exclude other shared ones.
    pub(crate) is_shared: bool,
}

impl Waiter {
    /// The calling thread, which has this id. The queue wakes it by `unparker`.
    pub(crate) fn new(wanted: Wanted, thread: ThreadId, unparker: &Unparker) -> Arc<Self> {
        Arc::new(Self {
            thread,
            liveness: Liveness::of_this_thread(),
            locks: wanted.locks,
            terms: wanted.terms,
            needed: wanted.needed,
            kind: wanted.kind,
            is_shared: wanted.is_shared,
            unparker: unparker.clone(),
            is_assigned: AtomicBool::new(false),
        })
    }

    pub(super) fn assign(&self) {
        self.is_assigned.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_assigned(&self) -> bool {
        self.is_assigned.load(Ordering::Relaxed)
    }

    pub(super) fn wake(&self) {
        let Self { unparker, .. } = self;
        unparker.unpark();
    }
}
