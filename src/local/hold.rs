//! One hold of one lock by one thread: its levels, its lease by the local clock, its end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::Receiver;
use parking_lot::Mutex;

use super::bell::Bell;
use super::levels::{LevelId, Levels};
use super::queue::LocalQueue;
use crate::clock::Moment;
use crate::error::{Error, LostReason, Result};
use crate::key::LockKey;
use crate::lease::Terms;
use crate::observe::{LockEvent, Observer};
use crate::owner::{Owner, ThreadId};
use crate::script::Renewal;
use crate::watchdog::{Id, Renew, Schedule, Step, slack};

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// From the first acquire of a lock to the release of its last level.
#[derive(Debug)]
pub(crate) struct Hold {
    id: Id,
    key: LockKey,
    /// Who took the lock from Redis. Apart from `thread`, which holds it here.
    owner: Owner,
    thread: ThreadId,
    state: Mutex<State>,
    bell: Bell,
    queue: Weak<LocalQueue>,
    observer: Arc<Observer>,
}

/// Its mutex protects: a hold ends once, and after its end neither its levels nor its lease grow.
#[derive(Debug)]
struct State {
    levels: Levels,
    /// When Redis was last asked, of what it has answered, whether the hold stands.
    confirmed: Moment,
    /// When the lease may be over on the server, by the local clock.
    expires: Moment,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Lost(LostReason),
    /// The last level was given up, and its release is under way or done.
    Released,
}

/// What giving up a level leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Popped {
    /// The level is not there: it was given up already.
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

    /// The calling thread's, for a request that was sent after `asked`.
    pub(crate) fn new(
        key: LockKey,
        owner: Owner,
        terms: Terms,
        asked: Moment,
        queue: &Arc<LocalQueue>,
        observer: Arc<Observer>,
    ) -> Self {
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            key,
            owner,
            thread: ThreadId::current(),
            state: Mutex::new(State {
                levels: Levels::new(terms),
                confirmed: asked,
                expires: asked.after(Duration::from_millis(terms.millis)),
                end: None,
            }),
            bell: Bell::default(),
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

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    pub(crate) fn into_owner(self) -> Owner {
        self.owner
    }

    pub(crate) fn thread(&self) -> ThreadId {
        self.thread
    }

    pub(crate) fn expires(&self) -> Moment {
        self.state.lock().expires
    }

    /// Fails unless the hold stands. It stands no longer than its lease by the local clock: once
    /// that has run out, no late answer brings the hold back.
    pub(crate) fn check(&self) -> Result<()> {
        let (end, expires) = {
            let state = self.state.lock();
            (state.end, state.expires)
        };
        match end {
            Some(end) => Err(self.error(end)),
            None if expires.is_past() => {
                self.lose(LostReason::Expired);
                self.check()
            }
            None => Ok(()),
        }
    }

    fn error(&self, end: End) -> Error {
        let lock = self.key.name().into();
        match end {
            End::Lost(reason) => Error::Lost { lock, reason },
            End::Released => Error::NotHeld { lock },
        }
    }

    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        self.error(End::Lost(reason))
    }

    /// The levels that are held; none once the hold has ended.
    pub(crate) fn count(&self) -> u32 {
        if self.check().is_err() {
            return 0;
        }
        self.state.lock().levels.count()
    }

    /// Adds a level, for a request that was sent after `asked` and that Redis granted.
    pub(crate) fn push(&self, terms: Terms, asked: Moment) -> Result<LevelId> {
        self.extended(asked, terms.millis)?;
        let mut state = self.state.lock();
        match state.end {
            None => Ok(state.levels.push(terms)),
            Some(end) => Err(self.error(end)),
        }
    }

    /// From here on a guard gives up this level.
    pub(crate) fn guard(&self, level: LevelId) {
        self.state.lock().levels.guard(level);
    }

    /// Gives up one level: the one that is named, or the newest that no guard gives up.
    pub(crate) fn pop(&self, level: Option<LevelId>) -> Popped {
        let mut state = self.state.lock();
        let Some(left) = state.levels.pop(level) else {
            return Popped::Nothing;
        };
        match state.end {
            Some(End::Lost(reason)) => Popped::Lost {
                reason,
                last: left == 0,
            },
            _ if left == 0 => {
                state.end = Some(End::Released);
                Popped::Last
            }
            _ => Popped::Inner(left),
        }
    }

    /// Redis granted `millis` more to a request that was sent after `asked`; 0: it only confirmed
    /// that the hold stands.
    pub(crate) fn extended(&self, asked: Moment, millis: u64) -> Result<()> {
        self.check()?;
        let mut state = self.state.lock();
        let expires = asked.after(Duration::from_millis(millis));
        state.expires = state.expires.max(expires);
        state.confirmed = state.confirmed.max(asked);
        Ok(())
    }

    /// Ends a hold that stands as lost, and tells everybody: the holder, the operator, and the
    /// threads at home that wait for it.
    pub(crate) fn lose(&self, reason: LostReason) {
        self.lose_from(None, reason);
    }

    /// As [`lose`](Self::lose), where it is the release that finds the lock gone.
    pub(crate) fn lose_on_release(&self, reason: LostReason) {
        self.lose_from(Some(End::Released), reason);
    }

    fn lose_from(&self, before: Option<End>, reason: LostReason) {
        {
            let mut state = self.state.lock();
            if state.end != before {
                return;
            }
            state.end = Some(End::Lost(reason));
        }
        tracing::warn!(lock = self.key.name(), %reason, "a held lock is lost");
        self.bell.ring(reason);
        self.observer.lost.add(1);
        self.observer.emit(&LockEvent::Lost {
            lock: self.key.shared_name(),
            reason,
        });
        if let Some(queue) = self.queue.upgrade() {
            queue.lost(self);
        }
    }

    /// Where the loss is told.
    pub(crate) fn bell(&self) -> &Receiver<LostReason> {
        self.bell.listen(|| match self.state.lock().end {
            Some(End::Lost(reason)) => Some(reason),
            _ => None,
        })
    }

    /// When the watchdog is to look at this hold again.
    pub(crate) fn schedule(&self) -> Schedule {
        self.state.lock().schedule()
    }
}

impl State {
    /// Before the last third of the lease begins, and no later than two thirds of it after Redis was
    /// last asked: a lease that was extended by hand is no reason to look away for so long.
    fn schedule(&self) -> Schedule {
        let look = self.look_again();
        if self.levels.are_fixed() {
            return Schedule {
                due: look.min(self.expires),
                lease: None,
            };
        }
        let pace = self.levels.pace();
        let renew = self.expires.before(pace / 3 + slack(pace));
        Schedule {
            due: look.min(renew),
            lease: Some(pace),
        }
    }

    fn look_again(&self) -> Moment {
        let pace = self.levels.pace();
        self.confirmed.after(pace / 3 * 2).before(slack(pace))
    }

    /// What a hold that stands wants at `now`.
    fn wants(&self, now: Moment) -> Want {
        let soon = now.after(slack(self.levels.pace()));
        if self.levels.are_fixed() {
            // Nothing renews it, but its holder is to know if it is gone.
            let asks = self.look_again().min(self.expires) < self.expires;
            return if asks && self.look_again() <= soon {
                Want::Millis(0)
            } else {
                Want::Nothing
            };
        }
        if self.schedule().due > soon {
            Want::Nothing
        } else if self.levels.are_used_up() {
            Want::Limit
        } else {
            Want::Millis(self.levels.lease_millis())
        }
    }
}

enum Want {
    Nothing,
    /// A renewal; 0: no more than to know whether the hold stands.
    Millis(u64),
    /// To be told that there is no renewal left.
    Limit,
}

impl Renew for Hold {
    fn step(&self, now: Moment) -> Step {
        let (ended, expires, want, schedule) = {
            let state = self.state.lock();
            let ended = state.end.is_some();
            (ended, state.expires, state.wants(now), state.schedule())
        };
        if ended {
            return Step::Over;
        }
        if now >= expires {
            self.lose(LostReason::Expired);
            return Step::Over;
        }
        match want {
            Want::Nothing => Step::Wait(schedule),
            Want::Limit => {
                self.lose(LostReason::RenewalLimit);
                Step::Over
            }
            Want::Millis(millis) => Step::Renew(Renewal {
                key: self.key.clone(),
                owner: self.owner.clone(),
                millis,
            }),
        }
    }

    fn renewed(&self, asked: Moment, millis: u64) -> Schedule {
        self.state.lock().levels.renewed();
        // A hold that is over by now will say so when it is looked at next.
        let _ = self.extended(asked, millis);
        self.schedule()
    }

    fn not_renewed(&self, cause: &str) -> Schedule {
        let (pace, expires, schedule) = {
            let state = self.state.lock();
            (state.levels.pace(), state.expires, state.schedule())
        };
        self.observer.emit(&LockEvent::RenewalFailed {
            lock: self.key.shared_name(),
            cause: cause.into(),
            lease_left: expires.left(),
        });
        let pause = slack(pace).max(Duration::from_millis(2));
        Schedule {
            due: Moment::now().after(pause).min(expires),
            ..schedule
        }
    }

    fn lost(&self, reason: LostReason) {
        self.lose(reason);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::lease::Renewals;

    const LEASE: u64 = 3000;

    /// A hold of `thread`, renewed, that was just taken.
    pub(in crate::local) fn hold(queue: &Arc<LocalQueue>, thread: ThreadId) -> Arc<Hold> {
        let terms = terms(LEASE, Renewals::Unlimited);
        let mut hold = new(queue, terms, Moment::now());
        hold.thread = thread;
        Arc::new(hold)
    }

    fn terms(millis: u64, renewals: Renewals) -> Terms {
        Terms { millis, renewals }
    }

    fn new(queue: &Arc<LocalQueue>, terms: Terms, asked: Moment) -> Hold {
        Hold::new(
            LockKey::new("", "lock"),
            Owner::current(&uuid::Uuid::new_v4()),
            terms,
            asked,
            queue,
            Arc::default(),
        )
    }

    fn taken(millis: u64, renewals: Renewals) -> (Hold, Moment) {
        let asked = Moment::now();
        (new(&Arc::default(), terms(millis, renewals), asked), asked)
    }

    fn reason(hold: &Hold) -> Option<LostReason> {
        match hold.check() {
            Err(Error::Lost { reason, .. }) => Some(reason),
            _ => None,
        }
    }

    fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_renewed_hold_is_due_a_little_before_its_last_third() {
        let (hold, asked) = taken(LEASE, Renewals::Unlimited);
        let due = hold.schedule().due;
        assert!(due <= asked.after(millis(LEASE * 2 / 3)));
        assert!(due >= asked.after(millis(LEASE * 2 / 3 - LEASE / 16)));
        assert!(matches!(hold.step(asked), Step::Wait(_)));
        assert!(matches!(hold.step(due), Step::Renew(_)));
    }

    #[test]
    fn a_renewal_counts_from_before_it_was_sent() {
        let (hold, asked) = taken(LEASE, Renewals::Unlimited);
        let later = asked.after(millis(2000));
        let schedule = hold.renewed(later, LEASE);
        assert_eq!(hold.expires(), later.after(millis(LEASE)));
        assert!(schedule.due > later);
    }

    #[test]
    fn a_fixed_lease_is_never_renewed_and_ends_on_time() {
        let (hold, asked) = taken(LEASE, Renewals::None);
        // It is looked at once, so that its holder knows if it is gone.
        let look = hold.schedule().due;
        assert!(look <= asked.after(millis(LEASE * 2 / 3)));
        let Step::Renew(renewal) = hold.step(look) else {
            panic!("it is not looked at")
        };
        assert_eq!(renewal.millis, 0);
        assert_eq!(hold.renewed(look, 0).due, asked.after(millis(LEASE)));
        assert!(matches!(
            hold.step(asked.after(millis(LEASE - 1))),
            Step::Wait(_)
        ));
        assert!(matches!(hold.step(asked.after(millis(LEASE))), Step::Over));
        assert_eq!(reason(&hold), Some(LostReason::Expired));
    }

    #[test]
    fn used_up_renewals_are_told_while_the_lease_still_runs() {
        let (hold, _) = taken(LEASE, Renewals::Left(1));
        let first = hold.schedule().due;
        assert!(matches!(hold.step(first), Step::Renew(_)));
        let second = hold.renewed(first, LEASE).due;
        assert!(second < hold.expires());
        assert!(matches!(hold.step(second), Step::Over));
        assert_eq!(reason(&hold), Some(LostReason::RenewalLimit));
    }

    #[test]
    fn an_unanswered_renewal_moves_no_deadline_and_is_tried_again_before_it() {
        let (hold, asked) = taken(LEASE, Renewals::Unlimited);
        let schedule = hold.not_renewed("no answer");
        assert_eq!(hold.expires(), asked.after(millis(LEASE)));
        assert!(schedule.due < hold.expires());
        assert!(hold.check().is_ok());
    }

    #[test]
    fn a_hold_that_was_told_lost_stays_lost_whatever_a_late_renewal_says() {
        let (hold, asked) = taken(1, Renewals::Unlimited);
        while !hold.expires().is_past() {}
        assert_eq!(reason(&hold), Some(LostReason::Expired));
        hold.renewed(asked, 60_000);
        assert_eq!(reason(&hold), Some(LostReason::Expired));
        hold.lose(LostReason::Taken);
        assert_eq!(reason(&hold), Some(LostReason::Expired), "and is lost once");
    }

    #[test]
    fn a_loss_is_heard_by_those_who_listen_before_and_after() {
        let (hold, _) = taken(LEASE, Renewals::Unlimited);
        let early = hold.bell().clone();
        hold.lose(LostReason::Deleted);
        assert_eq!(early.try_recv(), Ok(LostReason::Deleted));
        let (hold, _) = taken(LEASE, Renewals::Unlimited);
        hold.lose(LostReason::Deleted);
        assert_eq!(hold.bell().try_recv(), Ok(LostReason::Deleted));
    }

    #[test]
    fn an_inner_level_that_ends_takes_nothing_from_the_outer() {
        let (hold, asked) = taken(LEASE, Renewals::Unlimited);
        let before = hold.schedule();
        hold.push(terms(10, Renewals::None), asked).unwrap();
        assert_eq!(hold.pop(None), Popped::Inner(1));
        assert_eq!(hold.schedule(), before);
        assert_eq!(hold.expires(), asked.after(millis(LEASE)));
    }

    #[test]
    fn a_lost_hold_is_unlocked_level_by_level() {
        let (hold, asked) = taken(LEASE, Renewals::Unlimited);
        hold.push(terms(LEASE, Renewals::Unlimited), asked).unwrap();
        let reason = LostReason::Taken;
        hold.lose(reason);
        assert_eq!(hold.count(), 0);
        assert_eq!(
            hold.pop(None),
            Popped::Lost {
                reason,
                last: false
            }
        );
        assert_eq!(hold.pop(None), Popped::Lost { reason, last: true });
        assert_eq!(hold.pop(None), Popped::Nothing);
    }
    #[test]
    fn a_lease_that_was_extended_is_looked_at_as_often_as_before() {
        let (hold, asked) = taken(LEASE, Renewals::Unlimited);
        hold.extended(asked, 3_600_000).unwrap();
        hold.push(terms(3_600_000, Renewals::None), asked).unwrap();
        assert!(hold.schedule().due <= asked.after(millis(LEASE * 2 / 3)));
    }

    #[test]
    fn no_level_is_added_to_a_hold_that_is_lost() {
        let (hold, asked) = taken(LEASE, Renewals::Unlimited);
        hold.lose(LostReason::Taken);
        assert!(hold.push(terms(LEASE, Renewals::Unlimited), asked).is_err());
        assert!(hold.extended(asked, 60_000).is_err());
    }

    #[test]
    fn while_its_last_level_is_released_a_hold_is_neither_held_nor_lost() {
        let (hold, _) = taken(LEASE, Renewals::Unlimited);
        assert_eq!(hold.pop(None), Popped::Last);
        assert!(matches!(hold.check(), Err(Error::NotHeld { .. })));
        hold.lose(LostReason::Deleted);
        assert!(matches!(hold.check(), Err(Error::NotHeld { .. })));
        hold.lose_on_release(LostReason::Deleted);
        assert_eq!(reason(&hold), Some(LostReason::Deleted));
    }
}
