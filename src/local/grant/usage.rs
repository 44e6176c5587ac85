//! Whether holds use a grant: the holds of one thread after another, or an idle grant.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{Grant, GrantState, Holder, KeptInRedis, Usage};
use crate::base::clock::Moment;
use crate::lease::Terms;
use crate::local::levels::{LevelId, Levels};

/// No hold has this count.
const UNKNOWN_COUNT: u32 = 0;

impl Usage {
    /// True if no hold uses the grant, and another one may begin.
    fn is_unused(self) -> bool {
        matches!(self, Self::Free | Self::Idle(_))
    }
}

impl GrantState {
    pub(super) fn has_new_count(&self) -> bool {
        self.count() != self.written
    }

    /// Records since when the hold count differs from what Redis has, as far as the watchdog knows.
    pub(super) fn note_count(&mut self) {
        if self.has_new_count() {
            self.count_changed.get_or_insert_with(Moment::now);
        } else {
            self.count_changed = None;
        }
    }

    /// Records the hold count that Redis has.
    pub(super) fn wrote_count(&mut self, count: u32) {
        self.written = count;
        self.count_changed = None;
    }

    /// Records that a request with this count got no reply. If it would have changed the count, it
    /// is unknown which one Redis has.
    pub(super) fn lost_count(&mut self, count: u32) {
        if count != self.written {
            self.wrote_count(UNKNOWN_COUNT);
        }
    }

    /// Begins a hold, which `make` makes from its number and its token.
    fn begin<H: Holder + 'static>(
        &mut self,
        make: impl FnOnce(u64, Option<u64>) -> Arc<H>,
    ) -> Arc<H> {
        self.holds += 1;
        let hold = make(self.holds, self.tokens.next());
        let holder: Weak<H> = Arc::downgrade(&hold);
        self.usage = Usage::Held;
        let share = &mut self.shares[0];
        share.number = self.holds;
        share.holder = Some(holder);
        hold
    }
}

impl Grant {
    /// Begins the first hold.
    pub(in crate::local) fn begin<H: Holder + 'static>(
        &self,
        make: impl FnOnce(u64, Option<u64>) -> Arc<H>,
    ) -> Arc<H> {
        self.state.lock().begin(make)
    }

    /// Gives a [transferable](Self::is_transferable) grant to another thread with these terms: a
    /// new hold with a token of its own. `None` if the grant was lost meanwhile.
    pub(in crate::local) fn hand_over<H: Holder + 'static>(
        &self,
        terms: Terms,
        make: impl FnOnce(u64, Option<u64>) -> Arc<H>,
    ) -> Option<Arc<H>> {
        let mut state = self.state.lock();
        // The rest was checked under the queue's mutex, and matters no more: a renewal may have
        // changed the lease since.
        if !state.usage.is_unused() {
            return None;
        }
        let hold = state.begin(make);
        state.shares[0].lease.levels = Levels::new(terms);
        state.seen = None;
        Some(hold)
    }

    /// True if another thread can have the grant with these terms without a request.
    pub(in crate::local) fn is_transferable(&self, terms: Terms, now: Moment) -> bool {
        let state = self.state.lock();
        let has_token = !self.kind.has_tokens || !state.tokens.is_empty();
        let is_whole = has_token && state.kept_in_redis.is_none();
        let ends_in_time = state.lease_ends <= now.after(Duration::from_millis(terms.millis));
        let suits = state.shares[0].lease.suits(terms, now);
        state.usage.is_unused() && is_whole && ends_in_time && suits
    }

    /// Makes the grant idle until `until`: no thread holds the lock, but Redis keeps it. False if
    /// the grant was lost meanwhile, or has to be released at once.
    pub(in crate::local) fn make_idle(&self, until: Moment) -> bool {
        let mut state = self.state.lock();
        let is_free = state.usage == Usage::Free && state.kept_in_redis.is_none();
        if is_free {
            state.usage = Usage::Idle(until);
        }
        is_free
    }

    /// Ends the grant, which is then released in Redis. False if a thread holds it, or if it has
    /// ended.
    pub(in crate::local) fn end(&self) -> bool {
        let mut state = self.state.lock();
        let is_unused = state.usage.is_unused();
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
        self.state.lock().usage == Usage::Free
    }

    /// True if a thread has a live hold on the grant.
    pub(in crate::local) fn is_held(&self) -> bool {
        self.state.lock().usage == Usage::Held
    }

    /// True if it was released or lost.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().usage == Usage::Ended
    }

    /// Adds a level of this hold; `None` if the hold has ended.
    pub(in crate::local) fn push(&self, hold: u64, terms: Terms) -> Option<LevelId> {
        let mut state = self.state.lock();
        let is_held = state.usage == Usage::Held;
        let mut shares = state.shares.iter_mut();
        let share = shares.find(|share| is_held && share.number == hold)?;
        Some(share.lease.levels.push(terms))
    }

    /// Removes `level` of a hold, or the newest level without a guard. Returns the number of levels
    /// that are left; `None` if there is no such level. Without a level of any hold left, the grant
    /// is free.
    pub(in crate::local) fn pop(&self, hold: u64, level: Option<LevelId>) -> Option<u32> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let mut all = state.shares.iter_mut().chain(&mut state.lost);
        let share = all.find(|share| share.number == hold)?;
        let left = share.lease.levels.pop(level)?;
        if left > 0 {
            return Some(left);
        }
        if state.shares.len() > 1 || state.shares[0].number != hold {
            state.shares.retain(|share| share.number != hold);
            state.lost.retain(|share| share.number != hold);
        } else if state.usage == Usage::Held {
            state.usage = Usage::Free;
        }
        Some(left)
    }

    /// Removes all levels of this hold, which waits on a condition: the grant is free. Returns the
    /// levels, and how long the release leaves the lock in Redis. `None` if the hold has ended.
    pub(in crate::local) fn suspend(&self, hold: u64) -> Option<(Levels, Option<KeptInRedis>)> {
        let mut state = self.state.lock();
        if !state.is_held_by(hold) {
            return None;
        }
        state.usage = Usage::Free;
        let kept = state.kept_in_redis.take().map(|kept| *kept);
        Some((std::mem::take(&mut state.shares[0].lease.levels), kept))
    }

    /// Gives this hold to `holder`, which continues with these levels. False if the hold has ended:
    /// then the levels are those that are not unlocked yet.
    pub(in crate::local) fn resume<H: Holder + 'static>(
        &self,
        hold: u64,
        holder: Weak<H>,
        levels: Levels,
    ) -> bool {
        let mut state = self.state.lock();
        let is_held = state.is_held_by(hold);
        let share = &mut state.shares[0];
        share.lease.levels = levels;
        if is_held {
            share.holder = Some(holder);
        }
        is_held
    }

    /// True if the hold count differs from what Redis has, and the watchdog has no note of that.
    pub(crate) fn begin_count_note(&self) -> bool {
        let differs = self.state.lock().has_new_count();
        differs && self.begin_note()
    }

    /// True if the watchdog has no note that the hold has changed. The caller gives it one.
    pub(crate) fn begin_note(&self) -> bool {
        !self.is_noted.swap(true, Ordering::Relaxed)
    }
}
