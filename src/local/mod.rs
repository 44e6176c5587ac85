//! The locks that the clients of this process hold, and the threads that wait for them. No I/O.
//!
//! Redis gives a *grant* to a client. Threads of the client have *holds* on it, one after another:
//! a thread that unlocks can hand the grant over to the next one. A hold has *levels*, one for each
//! acquire. A thread needs the *ticket* of a lock to request it from Redis, and keeps the ticket
//! while it holds the lock.
//!
//! A lock has at most one ticket for each client. A hold ends once, as released or as lost; only a
//! release that finds the lock gone turns released into lost. Mutexes are locked in one order: the
//! watchdog's or the queue's, then that of a grant, then that of a hold. No thread locks those of
//! the watchdog and of the queue together. No user code and no I/O runs under them.
//!
//! | file | duty |
//! |---|---|
//! | `levels`, `lease_state` | the levels of a hold; the lease, and when it is renewed. No clock |
//! | `grant/` | a grant and its holds: leases, owner ids, tokens, losses |
//! | `loss_notifier` | the channels of `lost()` |
//! | `place` | the place of a waiting thread in the queue of a condition |
//! | `yields` | when a client leaves a released lock to other clients |
//! | `queue/` | which thread may use a lock: tickets, hand-over, idle grants |

mod grant;
mod lease_state;
mod levels;
mod loss_notifier;
mod place;
mod queue;
#[cfg(test)]
mod tests;
mod yields;

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::FixedState;
use parking_lot::Mutex;

use crate::base::key::{Family, LockKey};

pub(crate) use grant::{Grant, Granted, Hold, Quorum, Unlocked, Unlocks};
pub(crate) use levels::LevelId;
pub(crate) use place::{Place, PlaceEnd};
pub(crate) use queue::{CameWith, Claim, Entered, Released, TicketState, Waiter, Wanted};
pub(crate) use yields::Pause;

/// All locks that threads of this process hold or wait for.
///
/// Invariants that its mutex protects:
///
/// * A lock has at most one ticket. No thread gets it for an exclusive hold while others have
///   shared holds.
/// * Threads that wait for a lock get its ticket in their order.
/// * A ticket that is passed on goes to the next thread directly. No other thread sees it free.
/// * A reply wakes the threads that wait for that reply.
///
/// It is locked before the mutex of a grant, never after it.
#[derive(Debug, Default)]
pub(crate) struct LocalQueue(Mutex<queue::Locks>);

/// Identifies a lock in this process: the same key at another client is another lock, and so is a
/// lock of another family. The two locks of a read-write lock have one id.
#[derive(Clone, Debug, Eq)]
pub(crate) struct LockId {
    /// The number of the client in this process.
    pub(crate) client: u64,
    pub(crate) key: Arc<str>,
    family: Family,
    /// Computed once, because every call looks the lock up several times.
    hash: u64,
}

impl LockId {
    pub(crate) fn new(client: u64, names: &LockKey) -> Self {
        let (key, family) = (Arc::clone(names.key()), names.family());
        Self {
            client,
            hash: FixedState::default().hash_one((client, &key, family)),
            key,
            family,
        }
    }
}

impl PartialEq for LockId {
    fn eq(&self, other: &Self) -> bool {
        self.client == other.client
            && self.family == other.family
            && (Arc::ptr_eq(&self.key, &other.key) || self.key == other.key)
    }
}

impl Hash for LockId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}
