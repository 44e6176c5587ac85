//! One hold of one lock by one thread: its levels, its lease by the local clock, its end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::lease_state::LeaseState;
use super::levels::{LevelId, Levels};
use super::loss_notifier::LossNotifier;
use super::owner_ids::{OwnerIds, Written};
use super::queue::LocalQueue;
use super::quorum::Quorum;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::owner::{Liveness, OwnerId, ThreadId};
use crate::base::process::Process;
use crate::error::{Error, LostReason, Result};
use crate::lease::Terms;
use crate::observe::Observer;
use crate::watchdog::{Id, Schedule};

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// From the first acquire of a lock to the release of its last level.
#[derive(Debug)]
pub(crate) struct Hold {
    id: Id,
    key: LockKey,
    token: Option<u64>,
    thread: ThreadId,
    liveness: Liveness,
    process: Process,
    since: Moment,
    /// Other threads of this process wait for it in line. Set under the queue's mutex.
    has_waiters: AtomicBool,
    state: Mutex<HoldState>,
    loss_notifier: LossNotifier,
    queue: Weak<LocalQueue>,
    observer: Arc<Observer>,
}

/// Its mutex protects: a hold ends once, and after its end neither its levels nor its lease grow.
#[derive(Debug)]
struct HoldState {
    /// Who holds the lock in Redis. Apart from the thread, which holds it here.
    owner_ids: OwnerIds,
    lease: LeaseState,
    /// Renewals that were asked for and not confirmed. Any of them may be under way still.
    unconfirmed: u32,
    end: Option<HoldEnd>,
    /// What this hold is a part of, to be told of its loss.
    quorums: Vec<Weak<Quorum>>,
    /// What it ends with.
    bond: Option<Arc<Quorum>>,
    /// It ended with others. In Redis it may still stand.
    forsaken: bool,
    /// For so many milliseconds its release leaves it in Redis, under this name.
    stays: Option<(u64, OwnerId)>,
}

impl HoldState {
    fn schedule(&self) -> Schedule {
        let schedule = self.lease.schedule();
        let count_due = self.owner_ids.due().unwrap_or(Moment::NEVER);
        Schedule {
            due: schedule.due.min(count_due),
            ..schedule
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoldEnd {
    Lost(LostReason),
    /// The last level was given up, and its release is under way or done.
    Released,
}

/// What Redis granted.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) owner: OwnerId,
    /// Before the request was sent.
    pub(crate) asked: Moment,
    pub(crate) terms: Terms,
    /// The fencing token, if one was asked for.
    pub(crate) token: Option<u64>,
}

/// What giving up a level leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Popped {
    /// There is no such level.
    Nothing,
    /// So many levels stay.
    Inner(u32),
    Last,
    /// The hold was lost before.
    Lost {
        reason: LostReason,
        /// No level is left to give up.
        last: bool,
    },
}

impl Hold {
    pub(crate) const FIRST_LEVEL: LevelId = Levels::FIRST;

    /// The calling thread's.
    pub(crate) fn new(
        key: LockKey,
        grant: Grant,
        queue: &Arc<LocalQueue>,
        observer: Arc<Observer>,
    ) -> Self {
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            key,
            token: grant.token,
            thread: ThreadId::current(),
            liveness: Liveness::of_this_thread(),
            process: Process::current(),
            since: grant.asked,
            has_waiters: AtomicBool::new(false),
            state: Mutex::new(HoldState {
                owner_ids: OwnerIds::new(grant.owner),
                lease: LeaseState::new(grant.terms, grant.asked),
                unconfirmed: 0,
                end: None,
                quorums: Vec::new(),
                bond: None,
                forsaken: false,
                stays: None,
            }),
            loss_notifier: LossNotifier::default(),
            queue: Arc::downgrade(queue),
            observer,
        }
    }

    pub(crate) fn id(&self) -> Id {
        self.id
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.key
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.state.lock().owner_ids.owner().clone()
    }

    /// The owner under which its lease is asked for now, perhaps by another thread than its own. Until
    /// [`answered`](Self::answered), the request may come when the hold is over.
    pub(crate) fn ask(&self) -> Result<OwnerId> {
        self.check()?;
        let mut state = self.state.lock();
        if let Some(end) = state.end {
            return Err(self.error(end));
        }
        state.unconfirmed += 1;
        Ok(state.owner_ids.owner().clone())
    }

    /// Every copy of a request for its lease was answered.
    pub(crate) fn answered(&self) {
        let mut state = self.state.lock();
        state.unconfirmed = state.unconfirmed.saturating_sub(1);
    }

    /// A renewal under its name may come when the hold is over, and would lengthen the next of that
    /// name.
    pub(crate) fn may_be_renewed_late(&self) -> bool {
        self.state.lock().unconfirmed > 0
    }

    /// The owner under which its thread is to write a count now.
    pub(crate) fn begin_count(&self) -> OwnerId {
        self.state.lock().owner_ids.begin()
    }

    /// The same for another copy of that request.
    pub(crate) fn count_again(&self, begun: &OwnerId) -> OwnerId {
        self.state.lock().owner_ids.again(begun)
    }

    pub(crate) fn end_count(&self, written: Written) {
        self.state.lock().owner_ids.end(written);
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.token
    }

    pub(crate) fn held_for(&self) -> Duration {
        Moment::now().since(self.since)
    }

    pub(crate) fn thread(&self) -> ThreadId {
        self.thread
    }

    pub(crate) fn thread_has_ended(&self) -> bool {
        self.liveness.has_ended()
    }

    /// Sets whether other threads of this process wait for it in line. Returns true if they have
    /// just begun to.
    pub(in crate::local) fn set_waiters(&self, has_waiters: bool) -> bool {
        !self.has_waiters.swap(has_waiters, Ordering::Relaxed) && has_waiters
    }

    pub(in crate::local) fn has_waiters(&self) -> bool {
        self.has_waiters.load(Ordering::Relaxed)
    }

    /// Whether threads of this process wait for it, or for another part of the same majority. The
    /// watchdog then confirms it more often.
    pub(crate) fn is_awaited(&self) -> bool {
        if self.has_waiters() {
            return true;
        }
        let bond = self.state.lock().bond.clone();
        bond.is_some_and(|bond| bond.is_awaited())
    }

    pub(crate) fn expires(&self) -> Moment {
        self.state.lock().lease.expires()
    }

    /// Until then Redis may keep it for us, hold or not.
    pub(crate) fn lease_ends(&self) -> Moment {
        self.state.lock().lease.lease_ends()
    }

    /// Fails unless the lock is held. A hold whose lease has run out by the local clock ends here as
    /// lost: no late reply brings it back.
    pub(crate) fn check(&self) -> Result<()> {
        match self.left() {
            Err(Error::Lost { reason, .. }) if reason == LostReason::Expired => {
                self.lose(reason);
                self.left().map(drop)
            }
            left => left.map(drop),
        }
    }

    /// What is left of the lease by the local clock, or the error of a lock that is not held. An
    /// expired lease is an error, but does not end the hold.
    pub(crate) fn left(&self) -> Result<Duration> {
        if !self.process.is_current() {
            return Err(self.not_held());
        }
        let state = self.state.lock();
        match (state.end, state.lease.expires()) {
            (Some(end), _) => Err(self.error(end)),
            (None, expires) if expires.is_past() => Err(self.lost_error(LostReason::Expired)),
            (None, expires) => Ok(expires.left()),
        }
    }

    fn error(&self, end: HoldEnd) -> Error {
        let lock = self.key.name().into();
        match end {
            HoldEnd::Lost(reason) => Error::Lost { lock, reason },
            HoldEnd::Released => Error::NotHeld { lock },
        }
    }

    pub(crate) fn not_held(&self) -> Error {
        self.error(HoldEnd::Released)
    }

    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        self.error(HoldEnd::Lost(reason))
    }

    /// The levels that are held; none once the hold has ended.
    pub(crate) fn count(&self) -> u32 {
        let _ = self.check();
        self.count_unchanged()
    }

    /// The number of levels, 0 if the hold does not stand. Does not end a hold whose lease has run
    /// out.
    pub(crate) fn count_unchanged(&self) -> u32 {
        self.left().map_or(0, |_| self.levels())
    }

    /// Adds a level, for a request that was sent after `asked` and that Redis granted.
    pub(crate) fn push(&self, terms: Terms, asked: Moment) -> Result<LevelId> {
        self.extended(asked, terms.millis)?;
        self.push_unanswered(terms)
    }

    /// Adds a level for a request that nobody answered: the lease stays what it was.
    pub(crate) fn push_unanswered(&self, terms: Terms) -> Result<LevelId> {
        let mut state = self.state.lock();
        match state.end {
            None => Ok(state.lease.push(terms)),
            Some(end) => Err(self.error(end)),
        }
    }

    /// The number of levels that are not given up yet, whether the hold stands or not.
    pub(crate) fn levels(&self) -> u32 {
        self.state.lock().lease.count()
    }

    /// The number of levels that no guard gives up and that are not given up yet, whether the hold
    /// stands or not.
    pub(crate) fn unguarded(&self) -> usize {
        self.state.lock().lease.unguarded()
    }

    /// From here on only a guard gives up this level.
    pub(crate) fn guard(&self, level: LevelId) {
        self.state.lock().lease.guard(level);
    }

    /// Gives up one level: the one that is named, or the newest without a guard.
    pub(crate) fn pop(&self, level: Option<LevelId>) -> Popped {
        let mut state = self.state.lock();
        let Some(left) = state.lease.pop(level) else {
            return Popped::Nothing;
        };
        match state.end {
            Some(HoldEnd::Lost(reason)) => Popped::Lost {
                reason,
                last: left == 0,
            },
            _ if left == 0 => {
                state.end = Some(HoldEnd::Released);
                Popped::Last
            }
            _ => Popped::Inner(left),
        }
    }

    /// Redis granted `millis` more to a request that was sent after `asked`; 0: it only confirmed
    /// that the hold stands.
    pub(crate) fn extended(&self, asked: Moment, millis: u64) -> Result<()> {
        self.check()?;
        self.state.lock().lease.granted(asked, millis);
        Ok(())
    }

    /// Has its release leave it in Redis for so long.
    #[cfg(feature = "cli")]
    pub(crate) fn stay(&self, millis: u64) {
        let mut state = self.state.lock();
        let (name, _) = state.owner_ids.owner().with_fresh_name().split();
        state.stays = Some((millis, name));
    }

    /// For how many milliseconds its release leaves it in Redis, and under which name, if it does.
    pub(crate) fn stays(&self) -> Option<(u64, OwnerId)> {
        self.state.lock().stays.clone()
    }

    /// The state, with a lease that knows whether threads wait for the hold.
    fn state_as_awaited(&self) -> MutexGuard<'_, HoldState> {
        let is_awaited = self.is_awaited();
        let mut state = self.state.lock();
        state.lease.set_awaited(is_awaited);
        state
    }

    /// When the watchdog is to look at this hold again.
    pub(crate) fn schedule(&self) -> Schedule {
        self.state_as_awaited().schedule()
    }
}

mod loss;
mod renewal;

#[cfg(test)]
pub(super) mod tests;
