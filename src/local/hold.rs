//! One hold of one lock by one thread: its levels, its lease by the local clock, its end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::queue::LocalQueue;
use crate::clock::{LatestMoment, Moment};
use crate::error::{Error, LostReason, Result};
use crate::key::LockKey;
use crate::lease::{Renewals, Terms};
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
    /// Made when somebody asks for it: most holds end well and are never listened to.
    bell: OnceLock<Bell>,
    queue: Weak<LocalQueue>,
    observer: Arc<Observer>,
}

/// Its mutex protects: a hold ends once, and has at least one level until then.
#[derive(Debug)]
struct State {
    levels: Vec<Level>,
    next_level: LevelId,
    end: Option<End>,
}

/// Tells one level from another: guards may be dropped in any order.
pub(crate) type LevelId = u32;

#[derive(Debug)]
struct Level {
    id: LevelId,
    terms: Terms,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Lost(LostReason),
    Released,
}

/// Where the holder listens for the loss. The sender is dropped with the message, and with the
/// hold, so that nobody listens for ever.
#[derive(Debug)]
struct Bell {
    sender: Mutex<Option<Sender<LostReason>>>,
    receiver: Receiver<LostReason>,
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
    pub(crate) const FIRST_LEVEL: LevelId = 0;

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
                levels: vec![Level {
                    id: Self::FIRST_LEVEL,
                    terms,
                }],
                next_level: Self::FIRST_LEVEL + 1,
                end: None,
            }),
            bell: OnceLock::new(),
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
        u32::try_from(self.state.lock().levels.len()).unwrap_or(u32::MAX)
    }

    /// The longest lease that any level asks for, in milliseconds.
    pub(crate) fn lease_millis(&self) -> u64 {
        self.state.lock().lease_millis()
    }

    /// Adds a level, for a request that was sent after `asked`.
    pub(crate) fn push(&self, terms: Terms, asked: Moment) -> LevelId {
        let mut state = self.state.lock();
        let id = state.next_level;
        state.next_level += 1;
        state.levels.push(Level { id, terms });
        drop(state);
        self.extended(asked, terms.millis);
        id
    }

    /// Gives up one level: the newest, or the one that is named.
    pub(crate) fn pop(&self, level: Option<LevelId>) -> Popped {
        let mut state = self.state.lock();
        let place = match level {
            None => state.levels.len().checked_sub(1),
            Some(id) => state.levels.iter().position(|level| level.id == id),
        };
        let Some(place) = place else {
            return Popped::Nothing;
        };
        state.levels.remove(place);
        match (state.end, u32::try_from(state.levels.len())) {
            (Some(End::Lost(reason)), left) => Popped::Lost {
                reason,
                last: left == Ok(0),
            },
            (_, Ok(0)) => Popped::Last,
            (_, left) => Popped::Inner(left.unwrap_or(u32::MAX)),
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
        self.ring();
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
        let bell = self.bell.get_or_init(|| {
            let (sender, receiver) = bounded(1);
            Bell {
                sender: Mutex::new(Some(sender)),
                receiver,
            }
        });
        // Whoever ends the hold before the bell is there does not ring it.
        self.ring();
        &bell.receiver
    }

    fn ring(&self) {
        if let (Some(End::Lost(reason)), Some(bell)) = (self.end(), self.bell.get())
            && let Some(sender) = bell.sender.lock().take()
        {
            // Room for one, and only this one is ever sent.
            let _ = sender.try_send(reason);
        }
    }

    fn end(&self) -> Option<End> {
        self.state.lock().end
    }

    /// When the watchdog is to look at this hold again.
    pub(crate) fn schedule(&self) -> Schedule {
        let state = self.state.lock();
        let expires = self.expires();
        if state.is_fixed() {
            return Schedule {
                due: expires,
                lease: None,
            };
        }
        let lease = Duration::from_millis(state.lease_millis());
        Schedule {
            due: expires.before(lease / 3 + slack(lease)),
            lease: Some(lease),
        }
    }
}

impl State {
    fn lease_millis(&self) -> u64 {
        let longest = self.levels.iter().map(|level| level.terms.millis).max();
        longest.unwrap_or(0)
    }

    /// No level asked for renewal.
    fn is_fixed(&self) -> bool {
        self.all(|renewals| renewals == Renewals::None)
    }

    /// No level may be renewed any more.
    fn is_used_up(&self) -> bool {
        self.all(|renewals| matches!(renewals, Renewals::None | Renewals::Left(0)))
    }

    fn all(&self, mut condition: impl FnMut(Renewals) -> bool) -> bool {
        self.levels
            .iter()
            .all(|level| condition(level.terms.renewals))
    }
}

impl Renew for Hold {
    fn step(&self, now: Moment) -> Step {
        if now >= self.expires() {
            self.lose(LostReason::Expired);
        }
        let schedule = self.schedule();
        let (ended, used_up) = {
            let state = self.state.lock();
            (state.end.is_some(), state.is_used_up())
        };
        let early = schedule.lease.map_or(Duration::ZERO, slack);
        if ended {
            Step::Over
        } else if schedule.due > now.after(early) || schedule.lease.is_none() {
            Step::Wait(schedule)
        } else if used_up {
            self.lose(LostReason::RenewalLimit);
            Step::Over
        } else {
            Step::Renew(Renewal {
                key: self.key.clone(),
                owner: self.owner.clone(),
                millis: self.lease_millis(),
            })
        }
    }

    fn renewed(&self, asked: Moment, millis: u64) -> Schedule {
        for level in &mut self.state.lock().levels {
            if let Renewals::Left(n) = &mut level.terms.renewals {
                *n = n.saturating_sub(1);
            }
        }
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
        let lease = Duration::from_millis(self.lease_millis());
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
    use proptest::prelude::*;

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
    fn the_bell_rings_once_whether_it_is_there_before_the_loss_or_after() {
        for early in [true, false] {
            let (hold, _) = taken(LEASE, Renewals::Unlimited);
            if early {
                assert!(hold.bell().is_empty());
            }
            hold.lose(LostReason::Deleted);
            assert_eq!(hold.bell().try_recv(), Ok(LostReason::Deleted));
            assert!(hold.bell().recv().is_err(), "disconnected, not silent");
        }
    }

    #[test]
    fn the_bell_is_disconnected_when_the_hold_is_gone() {
        let (hold, _) = taken(LEASE, Renewals::Unlimited);
        let bell = hold.bell().clone();
        hold.released();
        drop(hold);
        assert!(bell.recv().is_err());
    }

    #[test]
    fn an_inner_level_that_ends_takes_nothing_from_the_outer() {
        let (hold, asked) = taken(LEASE, Renewals::Unlimited);
        hold.push(terms(10, Renewals::None), asked);
        assert_eq!(hold.lease_millis(), LEASE, "re-entry never shortens");
        assert_eq!(hold.pop(None), Popped::Inner(1));
        assert!(
            hold.schedule().lease.is_some(),
            "and the outer level is still renewed"
        );
    }

    #[test]
    fn a_fixed_hold_is_renewed_just_as_long_as_a_level_asks_for_it() {
        let (hold, asked) = taken(LEASE, Renewals::None);
        let level = hold.push(terms(LEASE, Renewals::Unlimited), asked);
        assert!(hold.schedule().lease.is_some());
        // Guards may be dropped in any order: it is the named level that goes.
        hold.push(terms(LEASE, Renewals::None), asked);
        assert_eq!(hold.pop(Some(level)), Popped::Inner(2));
        assert!(hold.schedule().lease.is_none());
        assert_eq!(hold.pop(Some(level)), Popped::Nothing, "and goes once");
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

    proptest! {
        /// Whatever levels come and go, the hold is due before it expires, its lease is the longest
        /// asked for, and its end by the local clock never moves back.
        #[test]
        fn levels_come_and_go(steps in prop::collection::vec((any::<bool>(), 1000..100_000u64, 0..3u8), 1..30)) {
            let (hold, asked) = taken(LEASE, Renewals::Unlimited);
            let mut levels = vec![LEASE];
            let mut expires = hold.expires();
            for (push, length, kind) in steps {
                if push || levels.len() == 1 {
                    let renewals = [Renewals::None, Renewals::Left(2), Renewals::Unlimited][kind as usize];
                    hold.push(terms(length, renewals), asked);
                    levels.push(length);
                } else {
                    levels.pop();
                    prop_assert_eq!(hold.pop(None), Popped::Inner(levels.len() as u32));
                }
                prop_assert_eq!(hold.count() as usize, levels.len());
                prop_assert_eq!(hold.lease_millis(), *levels.iter().max().unwrap());
                prop_assert!(hold.schedule().due < hold.expires());
                prop_assert!(hold.expires() >= expires);
                expires = hold.expires();
            }
        }
    }
}
