//! One hold of one lock by one thread: its levels, its lease by the local clock, its end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::Receiver;
use parking_lot::Mutex;

use super::bell::Bell;
use super::levels::{LevelId, Levels};
use super::queue::LocalQueue;
use crate::clock::{LatestMoment, Moment};
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
    /// When the lease may be over on the server, by the local clock.
    expires: LatestMoment,
    state: Mutex<State>,
    bell: Bell,
    queue: Weak<LocalQueue>,
    observer: Arc<Observer>,
}

/// Its mutex protects: a hold ends once, and no level is given up twice.
#[derive(Debug)]
struct State {
    levels: Levels,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Lost(LostReason),
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
            expires: LatestMoment::new(asked.after(Duration::from_millis(terms.millis))),
            state: Mutex::new(State {
                levels: Levels::new(terms),
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
        self.expires.get()
    }

    /// Fails unless the hold stands. It stands no longer than its lease by the local clock: once
    /// that has run out, no late renewal brings the hold back.
    pub(crate) fn check(&self) -> Result<()> {
        if self.end().is_none() && self.expires().is_past() {
            self.lose(LostReason::Expired);
        }
        match self.end() {
            None => Ok(()),
            Some(End::Lost(reason)) => Err(self.lost_error(reason)),
            Some(End::Released) => Err(Error::NotHeld {
                lock: self.key.name().into(),
            }),
        }
    }

    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        Error::Lost {
            lock: self.key.name().into(),
            reason,
        }
    }

    /// The levels that are held; none once the hold has ended.
    pub(crate) fn count(&self) -> u32 {
        if self.check().is_err() {
            return 0;
        }
        self.state.lock().levels.count()
    }

    /// Adds a level, for a request that was sent after `asked`.
    pub(crate) fn push(&self, terms: Terms, asked: Moment) -> LevelId {
        let id = self.state.lock().levels.push(terms);
        self.extended(asked, terms.millis);
        id
    }

    /// Gives up one level: the newest, or the one that is named.
    pub(crate) fn pop(&self, level: Option<LevelId>) -> Popped {
        let mut state = self.state.lock();
        match (state.levels.pop(level), state.end) {
            (None, _) => Popped::Nothing,
            (Some(left), Some(End::Lost(reason))) => Popped::Lost {
                reason,
                last: left == 0,
            },
            (Some(0), _) => Popped::Last,
            (Some(left), _) => Popped::Inner(left),
        }
    }

    /// The last level was released; nothing that happens later is a loss.
    pub(crate) fn released(&self) {
        self.state.lock().end.get_or_insert(End::Released);
    }

    /// Redis granted `millis` more to a request that was sent after `asked`.
    pub(crate) fn extended(&self, asked: Moment, millis: u64) {
        self.expires
            .advance_to(asked.after(Duration::from_millis(millis)));
    }

    /// Ends the hold as lost, once, and tells everybody: the holder, the operator, and the threads
    /// at home that wait for it. False if it had ended already.
    pub(crate) fn lose(&self, reason: LostReason) -> bool {
        {
            let mut state = self.state.lock();
            if state.end.is_some() {
                return false;
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
        true
    }

    /// Where the loss is told.
    pub(crate) fn bell(&self) -> &Receiver<LostReason> {
        self.bell.listen(|| match self.end() {
            Some(End::Lost(reason)) => Some(reason),
            _ => None,
        })
    }

    fn end(&self) -> Option<End> {
        self.state.lock().end
    }

    /// When the watchdog is to look at this hold again.
    pub(crate) fn schedule(&self) -> Schedule {
        let expires = self.expires();
        let state = self.state.lock();
        if state.levels.are_fixed() {
            return Schedule {
                due: expires,
                lease: None,
            };
        }
        let lease = state.levels.lease();
        Schedule {
            due: expires.before(lease / 3 + slack(lease)),
            lease: Some(lease),
        }
    }
}

impl Renew for Hold {
    fn step(&self, now: Moment) -> Step {
        if now >= self.expires() {
            self.lose(LostReason::Expired);
        }
        let schedule = self.schedule();
        let (ended, used_up, lease) = {
            let state = self.state.lock();
            let levels = &state.levels;
            (state.end.is_some(), levels.are_used_up(), levels.lease())
        };
        if ended {
            Step::Over
        } else if schedule.lease.is_none() || schedule.due > now.after(slack(lease)) {
            Step::Wait(schedule)
        } else if used_up {
            self.lose(LostReason::RenewalLimit);
            Step::Over
        } else {
            Step::Renew(Renewal {
                key: self.key.clone(),
                owner: self.owner.clone(),
                millis: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
            })
        }
    }

    fn renewed(&self, asked: Moment, millis: u64) -> Schedule {
        self.state.lock().levels.renewed();
        self.extended(asked, millis);
        self.schedule()
    }

    fn not_renewed(&self, cause: &str) -> Schedule {
        let lease_left = self.expires().left();
        tracing::warn!(
            lock = self.key.name(),
            cause,
            ?lease_left,
            "a renewal got no clear answer; it is tried again"
        );
        self.observer.emit(&LockEvent::RenewalFailed {
            lock: self.key.shared_name(),
            cause: cause.into(),
            lease_left,
        });
        let lease = self.state.lock().levels.lease();
        let pause = slack(lease).max(Duration::from_millis(2));
        Schedule {
            due: Moment::now().after(pause).min(self.expires()),
            lease: Some(lease),
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
        assert_eq!(hold.schedule().due, asked.after(millis(LEASE)));
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
        assert!(!hold.lose(LostReason::Taken), "and is lost once");
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
        hold.push(terms(10, Renewals::None), asked);
        assert_eq!(hold.pop(None), Popped::Inner(1));
        assert_eq!(hold.schedule(), before);
        assert_eq!(hold.expires(), asked.after(millis(LEASE)));
    }

    #[test]
    fn a_lost_hold_is_unlocked_level_by_level() {
        let (hold, asked) = taken(LEASE, Renewals::Unlimited);
        hold.push(terms(LEASE, Renewals::Unlimited), asked);
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
}
