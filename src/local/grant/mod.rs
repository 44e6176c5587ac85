//! A grant: what Redis gave to this client for one lock. It has an owner id, a lease by the local
//! clock, and fencing tokens, and knows which holds use it. A hold: what one thread has on a grant.
//!
//! | file | duty |
//! |---|---|
//! | `usage` | begins holds on a grant; hand-over; idle grants; the hold count in Redis |
//! | `hold` | the levels of a hold, its lease, its span |
//! | `suspension` | a wait on a condition: the hold continues on another grant |
//! | `query` | commands that Redis executes only while the grant is held |
//! | `renewal` | what the watchdog does for the grant |
//! | `loss` | ends a grant or a hold as lost, and notifies |
//! | `skipped` | with the feature `testing`: the time that a test skips |
//!
//! The states of a hold, and of the grant that it uses or used last:
//!
//! | the hold | [`Usage`] | [`HoldEnd`] | `is_taken` |
//! |---|---|---|---|
//! | was handed over, and its thread does not know yet | `Held` | none | no |
//! | is held | `Held` | none | yes |
//! | is unlocked, and the queue decides what follows | `Free` | `Released` | yes |
//! | is unlocked, and another hold uses the grant | `Held` | `Released` | yes |
//! | is unlocked, and Redis keeps the lock for the next hold | `Idle` | `Released` | yes |
//! | is unlocked, and is released in Redis (1) | `Ended` | `Released` | yes |
//! | waits on a condition; the grant is in one of the four states above | | `Suspended` | yes |
//! | is lost with its grant (2) | `Ended` | `Lost` | any |
//! | is lost alone, beside others that share the grant | `Held` | `Lost` | any |
//!
//! 1. With `kept_in_redis`, the release leaves the lock in Redis: for a while, which a level may
//!    ask for while the hold is held, or for the client that adopts it. Such a grant has no further
//!    hold.
//! 2. With `ended_with_majority`, Redis may still have the lock, and the unlock releases it.

mod hold;
mod loss;
mod query;
mod renewal;
#[cfg(feature = "testing")]
mod skipped;
mod suspension;
#[cfg(test)]
mod tests;
mod usage;

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

pub(crate) use loss::OnLoss;
pub(super) use loss::{GrantQueue, Losses};
pub(crate) use query::Query;

use super::LockId;
use super::lease_state::LeaseState;
use super::levels::{LevelId, Levels};
use super::loss_notifier::LossNotifier;
use crate::base::owner::Liveness;
use crate::base::{HolderId, List, LockKey, Moment, OwnerId};
use crate::error::LostReason;
use crate::lease::{Renewals, Terms, drift, left_at_renewal};
use crate::observe::{Counters, HoldCount, HoldSpan, Observer};
use crate::protocol::Kind;
use crate::watchdog::{TargetId, next_target_id};

/// The watchdog reads the schedule of a new grant by then, or after a third of a shorter lease. It
/// wakes up more often anyway.
const FIRST_READ: Duration = Duration::from_secs(1);

/// A lock that Redis granted to this client. Threads have holds on it, one after another, or, if
/// the kind of lock is shared, at the same time. The owner id in Redis is that of the grant,
/// whichever thread has the hold.
#[derive(Debug)]
pub(crate) struct Grant {
    id: TargetId,
    pub(crate) lock: LockId,
    key: LockKey,
    pub(crate) kind: &'static Kind,
    /// The slice counts from the arrival of the reply, so that it does not depend on the round
    /// trip.
    pub(super) granted: Granted,
    /// The watchdog has a note that the hold or its count has changed, and has not read the new
    /// schedule.
    is_noted: AtomicBool,
    state: Mutex<GrantState>,
    /// Locked by a query until there is a reply.
    query_turn: Mutex<()>,
    /// Knows which thread may use the grant.
    queue: Weak<dyn GrantQueue>,
    observer: Arc<Observer>,
}

/// The part of a grant that changes.
///
/// Invariants that its mutex protects:
///
/// * A grant ends once, and is never used again after that.
/// * Several holds use it only if the kind of lock is shared.
/// * Each token is given to one hold.
///
/// | event | `usage` before | after |
/// |---|---|---|
/// | `first_hold`, `next_hold`: a thread begins a hold | `Free`, `Idle` | `Held` |
/// | `share`: a thread begins a hold beside the others | `Held` | `Held` |
/// | `pop` of the last level of a hold beside others | `Held` | `Held` |
/// | `pop` of the last level of the last hold, or of all its levels | `Held` | `Free` |
/// | `make_idle`: no thread waits, and the client lingers | `Free` | `Idle` |
/// | `end`: the caller releases it in Redis | `Free`, `Idle` | `Ended` |
/// | `Hold::lose`: one of several holds is lost | `Held` | `Held` |
/// | `lose`, or `Hold::lose` of the last hold | all | `Ended` |
#[derive(Debug)]
struct GrantState {
    usage: Usage,
    /// The lease of the last hold that has ended.
    lease: LeaseState,
    /// Until when Redis may keep the lock: the latest end of all leases, also of those of levels
    /// and holds that have ended.
    lease_ends: Moment,
    /// The number of holds so far.
    holds: u64,
    /// The tokens that no hold has.
    tokens: Range<u64>,
    /// The hold count that Redis has, according to the last reply.
    written: u32,
    /// Since when the hold count differs from `written`.
    count_changed: Option<Moment>,
    /// When the watchdog handles the grant next, by the schedule that it has read last. Before
    /// that: by when it reads the first one.
    watched_until: Moment,
    /// Since when the watchdog has seen the grant in use without a break; `None` after a hand-over.
    seen: Option<Moment>,
    /// The release leaves the lock in Redis.
    kept_in_redis: Option<Box<KeptInRedis>>,
    /// The number of queries so far.
    queries: u64,
    /// A query got no reply yet, or no clear one, so Redis may execute it later.
    has_unclear_query: bool,
    /// The holds that were lost: a test skips their time, too.
    #[cfg(feature = "testing")]
    lost: Vec<Weak<Hold>>,
}

/// How the release leaves a lock in Redis.
#[derive(Clone, Debug)]
pub(crate) enum KeptInRedis {
    /// For this number of milliseconds, under this owner id.
    For(u64, OwnerId),
    /// For the client that adopts it, with these terms until then. The name of the grant follows
    /// the new one, because the call has both.
    ForToken(OwnerId, Terms),
}

/// Who uses a grant.
#[derive(Debug)]
enum Usage {
    /// The threads of these holds.
    Held(List<Weak<Hold>>),
    /// No thread yet, or the last hold has ended. The queue decides under its mutex what follows.
    Free,
    /// No thread. The watchdog releases the grant at this moment.
    Idle(Moment),
    /// No thread: it was released or lost.
    Ended,
}

/// The reply of Redis that granted a lock.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) owner: OwnerId,
    /// A moment before the request was sent. The lease counts from here.
    pub(crate) asked: Moment,
    /// When the reply arrived.
    pub(crate) replied: Moment,
    pub(crate) terms: Terms,
    /// Until when Redis may keep the lock: the end of its lease, or later if it was adopted.
    pub(crate) lease_ends: Moment,
    /// The fencing tokens, if the kind of lock has tokens.
    pub(crate) tokens: Range<u64>,
    pub(crate) turns: Turns,
}

/// How many holds may use a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turns {
    /// Those that begin in its slice.
    InSlice,
    /// This many, because clients wait in a queue in Redis.
    Counted(u32),
    /// One, because it was adopted. Nor does it stay idle. Otherwise a client that adopts its own
    /// token again and again could keep the lock from other clients.
    Adopted,
}

/// A thread's hold on a lock, from its first acquire to the release of its last level.
#[derive(Debug)]
pub(crate) struct Hold {
    key: LockKey,
    pub(crate) lock: LockId,
    pub(crate) holder: HolderId,
    pub(super) liveness: Liveness,
    /// The thread has taken the hold. False while a hold that was handed over is on its way to its
    /// thread. Set under the queue's mutex.
    is_taken: AtomicBool,
    count: HoldCount,
    state: Mutex<HoldState>,
    loss_notifier: LossNotifier,
}

/// The part of a hold that changes. Its mutex protects: a hold ends once. Only a release that finds
/// the lock gone turns `Released` into `Lost`.
///
/// | event | `end` before | after |
/// |---|---|---|
/// | `push`, `pop` of another level than the last | none | none |
/// | `pop` of the last level | none | `Released` |
/// | `pop` of all levels: the thread begins to wait on a condition | none | `Suspended` |
/// | `resume`: the thread has the lock again | `Suspended` | none |
/// | `abandon`: it could not acquire the lock again | `Suspended` | `Released`, `Lost` |
/// | the grant lost this hold | none | `Lost` |
/// | `lose_on_release`: the lock was gone | `Released`, `Suspended` | `Lost` |
#[derive(Debug)]
struct HoldState {
    /// The grant that the hold uses, or used last. Only a hold that is suspended gets another one.
    grant: Arc<Grant>,
    /// The number of the hold on this grant.
    number: u64,
    token: Option<NonZeroU64>,
    since: Moment,
    /// The levels that are not unlocked, also after a loss.
    levels: Levels,
    lease: LeaseState,
    end: Option<HoldEnd>,
    /// They are notified of the loss.
    observers: Vec<Weak<dyn OnLoss>>,
    /// The majority that this hold belongs to. They end together.
    majority: Option<Arc<dyn OnLoss>>,
    /// It ended because too few parts of its majority were left. Redis may still have the lock.
    ended_with_majority: bool,
    /// It is taken out before it is dropped, because that calls code of the application.
    span: Option<Box<HoldSpan>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoldEnd {
    Lost(LostReason),
    /// The thread has unlocked the last level. The release in Redis may still be under way.
    Released,
    /// The thread waits on a condition. It has unlocked all levels, and gets them again.
    Suspended {
        /// For how long the release of the last level leaves the lock in Redis, in milliseconds.
        kept_in_redis: Option<u64>,
    },
}

/// Which levels a thread unlocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlocks {
    Level(LevelId),
    /// The level of an owned hold, which is given away.
    GivesAway(LevelId),
    /// The newest level without a guard.
    Newest,
    /// All, until the hold continues.
    Suspends,
}

/// What became of a level that a thread unlocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlocked {
    /// There is no such level.
    NotHeld,
    /// Levels are left.
    Inner,
    /// It was the last level, and the next thread of this client has the grant.
    HandedOver,
    /// It was the last level, and other threads of this client still use the grant.
    Shared,
    /// It was the last level, and no thread uses the grant, which Redis keeps for a while.
    Idle,
    /// It was the last level. The caller releases the grant in Redis, and then calls
    /// [`LocalQueue::close`](super::LocalQueue::close).
    Last,
    /// The hold was lost before.
    Lost {
        reason: LostReason,
        /// No level is left. The caller calls [`LocalQueue::close`](super::LocalQueue::close).
        last: bool,
    },
}

impl Granted {
    /// True if the lease is over.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        let lease = self.terms.length();
        self.asked.after(lease - drift(lease)) <= now
    }
}

impl Grant {
    /// A grant that no thread uses yet.
    pub(super) fn new(
        lock: LockId,
        key: LockKey,
        kind: &'static Kind,
        granted: Granted,
        queue: Weak<dyn GrantQueue>,
        observer: Arc<Observer>,
    ) -> Arc<Self> {
        let asked = granted.asked;
        let lease = granted.terms.length();
        Arc::new(Self {
            id: next_target_id(),
            lock,
            key,
            kind,
            is_noted: AtomicBool::new(false),
            state: Mutex::new(GrantState {
                usage: Usage::Free,
                lease: LeaseState::new(lease, asked),
                lease_ends: granted.lease_ends,
                holds: 0,
                tokens: granted.tokens.clone(),
                written: 1,
                count_changed: None,
                watched_until: asked.after(FIRST_READ.min(left_at_renewal(lease))),
                seen: Some(asked),
                kept_in_redis: None,
                queries: 0,
                has_unclear_query: false,
                #[cfg(feature = "testing")]
                lost: Vec::new(),
            }),
            query_turn: Mutex::new(()),
            granted,
            queue,
            observer,
        })
    }

    pub(crate) fn id(&self) -> TargetId {
        self.id
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.key
    }

    pub(crate) fn owner(&self) -> &OwnerId {
        &self.granted.owner
    }

    /// The counters of its client.
    pub(super) fn counters(&self) -> &Counters {
        &self.observer.counters
    }

    /// True if its lease is renewed, so that another hold may follow the first.
    pub(super) fn is_renewed(&self) -> bool {
        self.granted.terms.renewals != Renewals::None
    }

    /// When it ends in this process unless it is renewed.
    pub(crate) fn expires(&self) -> Moment {
        self.state.lock().expires()
    }

    /// Until when Redis may keep the lock, even if the grant has ended.
    pub(crate) fn lease_ends(&self) -> Moment {
        self.state.lock().lease_ends
    }

    /// The number of holds that have used it.
    pub(super) fn holds(&self) -> u64 {
        self.state.lock().holds
    }

    /// The owner id and the terms with which the release leaves the lock in Redis for the client
    /// that adopts it; `None` if it does not.
    pub(crate) fn given_away(&self) -> Option<(OwnerId, Terms)> {
        match self.kept_in_redis()? {
            KeptInRedis::ForToken(owner, terms) => Some((owner.split().0, terms)),
            KeptInRedis::For(..) => None,
        }
    }

    /// How the release leaves the lock in Redis; `None` if it frees the lock.
    pub(crate) fn kept_in_redis(&self) -> Option<KeptInRedis> {
        self.state.lock().kept_in_redis.as_deref().cloned()
    }
}
