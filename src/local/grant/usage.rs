//! Which holds use a grant: those of one thread after another, or of several threads that share it.
//!
//! Several threads share the grant of a read lock. Each of their holds has a lease of its own, and
//! the watchdog renews the grant for the longest of them. The loss of the grant is notified to all;
//! a loss that is decided for one hold leaves the others. The last hold releases the grant in
//! Redis.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Grant, GrantState, Hold, HoldState, KeptInRedis, Turns, Usage};
use crate::base::owner::Liveness;
use crate::base::{HolderId, List, Moment, OwnerId};
use crate::lease::{Renewals, Terms};
use crate::local::lease_state::LeaseState;
use crate::local::levels::Levels;
use crate::local::loss_notifier::LossNotifier;
use crate::observe::HoldCount;

impl GrantState {
    /// The holds that use the grant.
    pub(super) fn live(&self) -> impl Iterator<Item = Arc<Hold>> {
        let holds = match &self.usage {
            Usage::Held(holds) => &holds[..],
            Usage::Free | Usage::Idle(_) | Usage::Ended => &[],
        };
        holds.iter().filter_map(Weak::upgrade)
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.usage, Usage::Held(_))
    }

    /// True if no hold uses the grant, and another one may begin.
    fn is_unused(&self) -> bool {
        matches!(self.usage, Usage::Free | Usage::Idle(_))
    }

    /// False if the grant has to be released after its holds: to be kept in Redis under another
    /// owner id, or because Redis may still execute a query of one of them.
    fn may_have_more_holds(&self) -> bool {
        self.kept_in_redis.is_none() && !self.has_unclear_query
    }

    /// Makes the release leave the lock in Redis for a lease of these terms, for the client that
    /// adopts it. `owner` is that of the grant.
    pub(super) fn keep_for_token(&mut self, owner: &OwnerId, terms: Terms) {
        let now = Moment::now();
        let terms = terms.given_away_at(now);
        self.lease_ends = self.lease_ends.max(now.after(terms.length()));
        let kept = KeptInRedis::ForToken(owner.with_secret_name(), terms);
        self.kept_in_redis = Some(Box::new(kept));
    }

    /// When the grant ends in this process: with the last of its holds.
    pub(super) fn expires(&self) -> Moment {
        let ends = self.live().map(|hold| hold.expires()).max();
        ends.unwrap_or(self.lease.expires)
    }

    /// The number of levels of all holds that use the grant.
    pub(super) fn count(&self) -> u32 {
        let counts = self.live().map(|hold| hold.levels());
        counts.fold(0, u32::saturating_add)
    }

    pub(super) fn has_new_count(&self) -> bool {
        self.count() != self.written
    }

    /// Removes a hold with this lease, which the next hold may get.
    pub(super) fn leave(&mut self, hold: &Hold, lease: LeaseState) {
        if let Usage::Held(holds) = &mut self.usage {
            holds.retain(|one| !std::ptr::eq(one.as_ptr(), hold));
            if holds.is_empty() {
                (self.usage, self.lease) = (Usage::Free, lease);
            }
        }
    }
}

impl Grant {
    /// Begins a hold.
    fn begin(
        self: &Arc<Self>,
        state: &mut GrantState,
        holder: HolderId,
        liveness: Liveness,
        since: Moment,
        lease: LeaseState,
        terms: Terms,
    ) -> Arc<Hold> {
        state.holds += 1;
        let hold = Arc::new(Hold {
            key: self.key.clone(),
            lock: self.lock.clone(),
            holder,
            liveness,
            is_taken: AtomicBool::new(false),
            count: HoldCount::default(),
            state: Mutex::new(HoldState {
                grant: Arc::clone(self),
                number: state.holds,
                token: state.tokens.next().and_then(NonZeroU64::new),
                since,
                levels: Levels::new(terms, since),
                lease,
                end: None,
                observers: Vec::new(),
                majority: None,
                ended_with_majority: false,
                span: None,
            }),
            loss_notifier: LossNotifier::default(),
        });
        match &mut state.usage {
            Usage::Held(holds) => holds.push(Arc::downgrade(&hold)),
            usage => *usage = Usage::Held(List::from([Arc::downgrade(&hold)])),
        }
        hold
    }

    /// Begins the first hold, for a thread with this id.
    pub(in crate::local) fn first_hold(self: &Arc<Self>, holder: HolderId) -> Arc<Hold> {
        let state = &mut *self.state.lock();
        let (liveness, terms) = (Liveness::of(holder), self.granted.terms);
        // A slow reply to an adopt does not prolong the limit of the hold.
        let since = match self.is_adopted() {
            true => self.granted.asked,
            false => self.granted.replied,
        };
        let lease = state.lease;
        let hold = self.begin(state, holder, liveness, since, lease, terms);
        hold.take();
        hold
    }

    /// Gives a [transferable](Self::is_transferable) grant to another thread with these terms: a
    /// new hold with a token of its own. `None` if the grant was lost meanwhile.
    pub(in crate::local) fn next_hold(
        self: &Arc<Self>,
        holder: HolderId,
        liveness: Liveness,
        terms: Terms,
        now: Moment,
    ) -> Option<Arc<Hold>> {
        let state = &mut *self.state.lock();
        // The rest was checked under the queue's mutex, and matters no more: a renewal may have
        // changed the lease since.
        state.is_unused().then(|| {
            state.seen = None;
            let lease = state.lease;
            self.begin(state, holder, liveness, now, lease, terms)
        })
    }

    /// Adds a hold of another thread with these terms, beside a live hold that keeps the grant as
    /// long as they need. `None` if there is none.
    pub(in crate::local) fn share(
        self: &Arc<Self>,
        holder: HolderId,
        liveness: Liveness,
        terms: Terms,
        now: Moment,
    ) -> Option<Arc<Hold>> {
        let state = &mut *self.state.lock();
        // Other leases end at a time of their own. They need grants of their own.
        if terms.renewals != Renewals::Unlimited || !state.may_have_more_holds() {
            return None;
        }
        let lease = state.live().find_map(|hold| {
            let hold = hold.state.lock();
            let is_long = hold.levels.longest_unlimited() >= terms.millis;
            (is_long && now < hold.expires()).then_some(hold.lease)
        });
        Some(self.begin(state, holder, liveness, now, lease?, terms))
    }

    /// True if another thread can have the grant with these terms without a request. Not if its
    /// idle time is over: then it is about to be released, and other clients may wait for that.
    pub(in crate::local) fn is_transferable(&self, terms: Terms, now: Moment) -> bool {
        let state = self.state.lock();
        let has_token = !self.kind.has_tokens || !state.tokens.is_empty();
        let is_whole = has_token && !self.is_adopted() && state.may_have_more_holds();
        let ends_in_time = state.lease_ends <= now.after(terms.length());
        let suits = state.lease.suits(terms, now);
        let is_over = matches!(state.usage, Usage::Idle(until) if until <= now);
        state.is_unused() && !is_over && is_whole && ends_in_time && suits
    }

    /// True if it may be handed over at `now`: for as many turns as it has, or else until `longest`
    /// after the reply that granted it.
    pub(in crate::local) fn has_turn(&self, longest: Duration, now: Moment) -> bool {
        match self.granted.turns {
            Turns::InSlice => now < self.granted.replied.after(self.slice(longest)),
            Turns::Counted(turns) => self.state.lock().holds < u64::from(turns),
            Turns::Adopted => false,
        }
    }

    pub(in crate::local) fn is_adopted(&self) -> bool {
        self.granted.turns == Turns::Adopted
    }

    /// How long it may be handed over after the reply that granted it: `longest`, but at most a
    /// quarter of its lease. Zero if the slice does not count.
    pub(in crate::local) fn slice(&self, longest: Duration) -> Duration {
        if self.granted.turns != Turns::InSlice {
            return Duration::ZERO;
        }
        let lease = self.lease_ends().since(self.granted.replied);
        longest.min(lease / 4)
    }

    /// Makes the grant idle until `until`: no thread holds the lock, but Redis keeps it. False if
    /// the grant was lost meanwhile, or has to be released at once.
    pub(in crate::local) fn make_idle(&self, until: Moment) -> bool {
        let mut state = self.state.lock();
        let is_free = matches!(state.usage, Usage::Free) && state.may_have_more_holds();
        if is_free {
            state.usage = Usage::Idle(until);
        }
        is_free
    }

    /// Ends the grant, which is then released in Redis. False if a thread holds it, or if it has
    /// ended.
    pub(in crate::local) fn end(&self) -> bool {
        let mut state = self.state.lock();
        let is_unused = state.is_unused();
        if is_unused {
            state.usage = Usage::Ended;
        }
        is_unused
    }

    /// True if the watchdog has to read the schedule of the grant again, because the grant is due
    /// earlier than by the schedule that the watchdog has. Does not consider the hold count.
    pub(crate) fn is_due_earlier(&self) -> bool {
        let state = self.state.lock();
        state.schedule_without_count().due < state.watched_until
    }

    /// When the watchdog handles the grant next, as far as it knows.
    pub(crate) fn watched_until(&self) -> Moment {
        self.state.lock().watched_until
    }

    /// True if the last hold has ended, and the queue has not decided what follows.
    pub(in crate::local) fn is_free(&self) -> bool {
        matches!(self.state.lock().usage, Usage::Free)
    }

    /// True if a thread has a live hold on the grant.
    pub(in crate::local) fn is_held(&self) -> bool {
        self.state.lock().is_held()
    }

    /// True if it was released or lost.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state.lock().usage, Usage::Ended)
    }

    /// True if the hold count differs from what Redis has, and the watchdog has no note of that.
    pub(crate) fn begin_count_note(&self) -> bool {
        // First, because it takes no look at each hold.
        let is_noted = self.is_noted.load(Ordering::Relaxed);
        !is_noted && self.state.lock().has_new_count() && self.begin_note()
    }

    /// True if the watchdog has no note that the hold has changed. The caller gives it one.
    pub(crate) fn begin_note(&self) -> bool {
        !self.is_noted.swap(true, Ordering::Relaxed)
    }
}
