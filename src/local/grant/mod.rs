//! A grant: what Redis gave to this client for one lock. It has an owner id, a lease by the local
//! clock, and fencing tokens, and knows which hold uses it.
//!
//! | file | duty |
//! |---|---|
//! | `usage` | whether holds use the grant; hand-over; idle grants; the hold count in Redis |
//! | `share` | the levels and the lease of one hold; the holds that share a grant |
//! | `renewal` | what the watchdog does for the grant |
//! | `loss` | ends the grant as lost |
//! | `skipped` | with the feature `testing`: the time that a test skips |

mod loss;
mod renewal;
mod share;
#[cfg(feature = "testing")]
mod skipped;
mod usage;

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

pub(super) use loss::Losses;
use share::Share;

use super::LockId;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::list::List;
use crate::base::owner::OwnerId;
use crate::error::LostReason;
use crate::lease::{Renewals, Terms, drift};
use crate::observe::{HoldSpan, Observer};
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
    lock: LockId,
    key: LockKey,
    kind: &'static Kind,
    owner: OwnerId,
    /// When the reply arrived. The slice counts from here, so that it does not depend on the round
    /// trip.
    since: Moment,
    /// How many holds may use it, if that is limited.
    turns: Option<usize>,
    /// Its lease is renewed, so another hold may follow the first.
    is_renewed: bool,
    /// The watchdog has a note that the hold or its count has changed, and has not read the new
    /// schedule.
    is_noted: AtomicBool,
    state: Mutex<GrantState>,
    keeper: Weak<dyn Keeper>,
    observer: Arc<Observer>,
}

/// Knows which thread may use a grant. The local queue implements it.
pub(super) trait Keeper: Send + Sync + std::fmt::Debug {
    /// Called after the loss of a grant that a thread held.
    fn lost(&self, grant: &Grant);
    /// Ends an idle grant, if no thread has taken it meanwhile.
    fn end_idle(&self, grant: &Grant) -> bool;
    /// Ends a grant as lost because its client is shut down. The caller
    /// [notifies](Grant::notify_holders) its holders. `None` if it has ended.
    fn shut_down(&self, grant: &Grant) -> Option<Losses>;
}

/// The hold of a thread on a grant.
pub(super) trait Holder: Send + Sync + std::fmt::Debug {
    /// Records the loss. Called under the mutex of the grant.
    fn end_as_lost(&self, reason: LostReason);
    /// Notifies the thread and those that observe the hold.
    fn notify_loss(&self, reason: LostReason);
    fn held_for(&self) -> Duration;
    fn take_span(&self) -> Option<Box<HoldSpan>>;
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
/// | `begin`, `hand_over`: a thread begins a hold | `Free`, `Idle` | `Held` |
/// | `share`: a thread begins a hold beside the others | `Held` | `Held` |
/// | `pop` of the last level of a hold beside others | `Held` | `Held` |
/// | `pop` of the last level of the last hold, `suspend` | `Held` | `Free` |
/// | `make_idle`: no thread waits, and the client lingers | `Free` | `Idle` |
/// | `end`: the caller releases it in Redis | `Free`, `Idle` | `Ended` |
/// | `lose_hold`: one of several holds is lost | `Held` | `Held` |
/// | `lose`, or `lose_hold` of the last hold | all | `Ended` |
#[derive(Debug)]
struct GrantState {
    usage: Usage,
    /// The holds that use the grant; without one, the last that did. Never empty.
    shares: List<Share>,
    /// The holds that were lost while others used the grant. Their threads have not unlocked them.
    lost: Vec<Share>,
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
    /// The release leaves the lock in Redis for this many milliseconds, under this owner id.
    kept_in_redis: Option<Box<KeptInRedis>>,
}

/// For how many milliseconds a release leaves a lock in Redis, and under which owner id.
pub(super) type KeptInRedis = (u64, OwnerId);

/// Who uses a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    /// The threads of its holds.
    Held,
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
    /// The fencing tokens, if the kind of lock has tokens.
    pub(crate) tokens: Range<u64>,
    /// How many holds may use the grant, if clients wait in a queue in Redis.
    pub(crate) turns: Option<usize>,
}

impl Granted {
    /// True if the lease is over.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        let lease = Duration::from_millis(self.terms.millis);
        self.asked.after(lease - drift(lease)) <= now
    }
}

impl Grant {
    /// A grant that no thread uses yet.
    pub(super) fn new(
        (lock, key, kind): (LockId, LockKey, &'static Kind),
        granted: Granted,
        keeper: Weak<dyn Keeper>,
        observer: Arc<Observer>,
    ) -> Arc<Self> {
        let Granted {
            owner,
            asked,
            replied,
            terms,
            tokens,
            turns,
        } = granted;
        let lease = Duration::from_millis(terms.millis);
        Arc::new(Self {
            id: next_target_id(),
            lock,
            key,
            kind,
            owner,
            since: replied,
            turns,
            is_renewed: terms.renewals != Renewals::None,
            is_noted: AtomicBool::new(false),
            state: Mutex::new(GrantState {
                usage: Usage::Free,
                shares: List::from([Share::new(terms, asked)]),
                lost: Vec::new(),
                lease_ends: asked.after(lease),
                holds: 0,
                tokens,
                written: 1,
                count_changed: None,
                watched_until: asked.after(FIRST_READ.min(lease / 3)),
                seen: Some(asked),
                kept_in_redis: None,
            }),
            keeper,
            observer,
        })
    }

    pub(crate) fn id(&self) -> TargetId {
        self.id
    }

    pub(crate) fn lock(&self) -> &LockId {
        &self.lock
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.key
    }

    pub(crate) fn owner(&self) -> &OwnerId {
        &self.owner
    }

    pub(crate) fn kind(&self) -> &'static Kind {
        self.kind
    }

    pub(super) fn is_renewed(&self) -> bool {
        self.is_renewed
    }

    /// When the reply that granted it arrived.
    pub(crate) fn since(&self) -> Moment {
        self.since
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

    /// True if it may be handed over at `now`: for as many turns as it has, or else until `longest`
    /// after the reply that granted it.
    pub(super) fn has_turn(&self, longest: Duration, now: Moment) -> bool {
        match self.turns {
            Some(turns) => self.state.lock().holds < turns as u64,
            None => now < self.since.after(self.slice(longest)),
        }
    }

    /// How long it may be handed over, from [`since`](Self::since) on: `longest`, but at most a
    /// quarter of its lease. Zero if its turns are counted.
    pub(super) fn slice(&self, longest: Duration) -> Duration {
        if self.turns.is_some() {
            return Duration::ZERO;
        }
        let lease = self.lease_ends().since(self.since);
        longest.min(lease / 4)
    }

    /// Makes the release leave the lock in Redis for `millis`, under another owner id. Of several
    /// times, also of threads that share the grant, the longest counts. Does nothing if this hold
    /// has ended.
    pub(in crate::local) fn keep_in_redis(&self, hold: u64, millis: u64) {
        let mut state = self.state.lock();
        if !state.is_held_by(hold) {
            return;
        }
        let before = state.kept_in_redis.as_ref().map_or(0, |kept| kept.0);
        let (name, _) = self.owner.with_fresh_name().split();
        state.kept_in_redis = Some(Box::new((millis.max(before), name)));
    }

    /// How long the release leaves the lock in Redis, in milliseconds, and under which owner id;
    /// `None` if the release frees the lock.
    pub(crate) fn kept_in_redis(&self) -> Option<KeptInRedis> {
        self.state.lock().kept_in_redis.as_deref().cloned()
    }
}
