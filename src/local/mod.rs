//! The locks that the clients of this process hold, and the threads that wait for them. No I/O.
//!
//! Redis gives a *grant* to a client. Threads of the client have *holds* on it, one after another:
//! a thread that unlocks can hand the grant over to the next one. A hold has *levels*, one for each
//! acquire. A hold belongs to its *holder*: a thread, or an owned guard, for which the threads that
//! use it act. A thread needs the *ticket* of a lock to request it from Redis, and keeps the ticket
//! while it holds the lock.
//!
//! A lock has at most one ticket for each client. A hold ends once, as released or as lost; only a
//! release that finds the lock gone turns released into lost. No user code and no I/O runs under a
//! mutex.
//!
//! | file | duty |
//! |---|---|
//! | `levels`, `lease_state` | the levels of a hold; the lease, and when it is renewed. No clock |
//! | `grant/` | a grant and its holds: leases, owner ids, tokens, losses |
//! | `loss_notifier` | the channels of `lost()` |
//! | `place` | the place of a waiting thread in the queue of a condition |
//! | `yields` | when a client leaves a released lock to other clients |
//! | `queue/` | which thread may use a lock: tickets, hand-over, idle grants |
//!
//! | word | meaning |
//! |---|---|
//! | shared, exclusive | a hold of a reader, beside which others can be; any other hold of a lock |
//! | turn | one hold of a grant whose holds are counted; of any other grant, its slice |
//! | slice | how long after its reply a grant may be handed over |
//! | pause | what a thread waits before its request, so that other clients get the lock |
//! | contended | other clients waited when this client last released the lock |
//! | fresh | nothing is known of other clients, as in a new entry |
//! | unanswered | since then, the requests for the lock have had no reply |
//! | also | the other locks that a waiting thread wants together with this one |

mod grant;
mod lease_state;
mod levels;
mod loss_notifier;
mod place;
mod queue;
#[cfg(test)]
pub(crate) mod tests;
mod yields;

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::FixedState;

use crate::base::{Family, LockKey};
use crate::protocol::Kind;

pub(crate) use grant::{
    Grant, Granted, Hold, KeptInRedis, OnLoss, Query, Turns, Unlocked, Unlocks,
};
pub(crate) use levels::LevelId;
pub(crate) use loss_notifier::LossNotifier;
pub(crate) use place::{Place, PlaceEnd};
pub(crate) use queue::{CameWith, Claim, Entered, LocalQueue, TicketState, Waiter, Wanted};
pub(crate) use yields::Pause;

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

    /// The locks that this key can be at a client, as locks of these kinds. Kinds that exclude each
    /// other are one lock.
    pub(crate) fn of_kinds(
        client: u64,
        key: &str,
        kinds: impl IntoIterator<Item = &'static Kind>,
    ) -> Vec<Self> {
        let mut ids = Vec::new();
        for kind in kinds {
            let id = Self::new(client, &kind.names("", key, ""));
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }
}

/// The order in which a thread takes the tickets of several locks: by name, then by client.
impl Ord for LockId {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.key, self.client, self.family).cmp(&(&other.key, other.client, other.family))
    }
}

impl PartialOrd for LockId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
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
