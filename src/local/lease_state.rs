//! The lease of a grant, and when it is renewed or confirmed. No I/O; the time is an argument.

use std::time::Duration;

use super::levels::Levels;
use crate::base::Moment;
use crate::lease::{Renewals, Terms, drift, left_at_renewal};
use crate::watchdog::{Schedule, slack};

/// The lease of a grant by the local clock. Each hold on the grant has a copy, from which its
/// [levels](Levels) decide when it is renewed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseState {
    /// When the last request was sent whose reply confirmed the grant.
    pub(super) confirmed: Moment,
    /// A request that is sent from this moment on has to confirm the grant; `ZERO`: none is wanted.
    pub(super) wanted: Moment,
    /// When the grant ends in this process: before the lease can end on the server.
    pub(super) expires: Moment,
    /// When the lease ends on the server, if both clocks run at one speed.
    pub(super) lease_ends: Moment,
}

/// What the watchdog does for a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Wait,
    /// Renew for this many milliseconds. With 0, only confirm that Redis has the grant.
    Renew(u64),
    /// End the grant as lost, because no level may be renewed any more.
    LimitReached,
}

impl LeaseState {
    /// The lease that Redis granted to a request that was sent after `asked`.
    pub(super) fn new(length: Duration, asked: Moment) -> Self {
        let mut lease = Self {
            confirmed: asked,
            wanted: Moment::ZERO,
            expires: asked,
            lease_ends: asked,
        };
        lease.granted(asked, length);
        lease
    }

    /// Records that Redis prolonged the lease by a request that was sent after `asked`.
    pub(super) fn granted(&mut self, asked: Moment, lease: Duration) {
        self.expires = self.expires.max(asked.after(lease - drift(lease)));
        self.lease_ends = self.lease_ends.max(asked.after(lease));
        self.confirmed = self.confirmed.max(asked);
    }

    /// True if another thread can get the grant with these terms and without a request, provided
    /// that Redis keeps it no longer than they say. Their lease must be a renewed one, because a
    /// fixed lease has to end in Redis on time. At least two thirds of it must be left, so that the
    /// next renewal is in time.
    pub(super) fn suits(&self, terms: Terms, now: Moment) -> bool {
        let lease = terms.length();
        terms.renewals != Renewals::None
            && self.expires >= now.after(lease - left_at_renewal(lease))
    }

    /// Makes all moments earlier by this time, which a test skips.
    #[cfg(feature = "testing")]
    pub(super) fn shift_back(&mut self, time: Duration) {
        let Self {
            confirmed,
            wanted,
            expires,
            lease_ends,
        } = self;
        for moment in [confirmed, wanted, expires, lease_ends] {
            *moment = moment.before(time);
        }
    }
}

/// The lease as the levels of a hold need it.
impl LeaseState {
    /// True if a further level with these terms needs no longer lease: the rest is long enough, or
    /// renewals keep it as long as the level needs.
    pub(super) fn covers(
        &self,
        levels: &Levels,
        terms: Terms,
        now: impl FnOnce() -> Moment,
    ) -> bool {
        let is_renewed = terms.renewals != Renewals::None;
        is_renewed && levels.longest_renewed() >= terms.millis
            || self.lease_ends >= now().after(terms.length())
    }

    /// When the watchdog next handles the grant. `due` is at the latest:
    ///
    /// * before the last third of a renewed lease begins;
    /// * two thirds of a lease after the grant was last confirmed, also if the lease was extended;
    /// * at the end of the lease;
    /// * at once, if a confirmation is wanted.
    pub(super) fn schedule(&self, levels: &Levels) -> Schedule {
        let pace = levels.pace();
        let is_fixed = levels.are_fixed();
        let renew_by = match is_fixed {
            true => self.expires,
            false => self.renew_by(pace),
        };
        Schedule {
            due: self.confirm_again(pace).min(renew_by),
            unconfirmed: self.confirmed,
            ends: self.expires,
            lease: (!is_fixed).then_some(pace),
            retry: slack(pace).max(Duration::from_millis(2)),
        }
    }

    /// What the watchdog does at `now` for a grant that has not ended. What is due within [`slack`]
    /// is done now. A fixed lease is never renewed, but confirmed once, so that the holder learns
    /// of a deleted lock.
    pub(super) fn action_at(&self, levels: &Levels, now: Moment) -> Action {
        let pace = levels.pace();
        let soon = now.after(slack(pace));
        let confirm_again = self.confirm_again(pace);
        if !levels.are_fixed() && self.renew_by(pace) <= soon {
            let renewal = levels.renewal_at(now);
            renewal.map_or(Action::LimitReached, Action::Renew)
        } else if confirm_again <= soon && confirm_again < self.expires {
            Action::Renew(0)
        } else {
            Action::Wait
        }
    }

    /// Before the last third of the lease begins. The allowance for drift shortens that third, so
    /// it does not make renewals earlier.
    fn renew_by(&self, pace: Duration) -> Moment {
        let last_third = left_at_renewal(pace).saturating_sub(drift(pace));
        self.expires.before(last_third + slack(pace))
    }

    /// When the grant is confirmed although nothing else is due.
    fn confirm_again(&self, pace: Duration) -> Moment {
        if self.confirmed < self.wanted {
            return Moment::ZERO;
        }
        let renewed_part = pace - left_at_renewal(pace);
        self.confirmed.after(renewed_part).before(slack(pace))
    }
}

#[cfg(test)]
mod tests;
