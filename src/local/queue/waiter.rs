//! A thread that waits in the local queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::LockId;
use crate::base::owner::Liveness;
use crate::base::{HolderId, Unparker};
use crate::lease::Terms;
use crate::protocol::Kind;

/// A thread that waits for the ticket of a lock.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(super) holder: HolderId,
    pub(super) liveness: Liveness,
    pub(super) wanted: Wanted,
    unparker: Unparker,
    /// The thread has the ticket. Set under the queue's mutex.
    is_assigned: AtomicBool,
}

/// What a thread wants: a lock that it does not hold yet.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) lock: LockId,
    pub(crate) terms: Terms,
    pub(crate) kind: &'static Kind,
    /// The locks that the thread wants together with this one.
    pub(crate) also: Vec<LockId>,
}

impl Waiter {
    /// The calling thread, which has this id. The queue wakes it by `unparker`.
    pub(crate) fn new(wanted: Wanted, holder: HolderId, unparker: &Unparker) -> Arc<Self> {
        Arc::new(Self {
            holder,
            liveness: Liveness::of(holder),
            wanted,
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
        self.unparker.unpark();
    }
}
