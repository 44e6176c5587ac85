//! The lease of a hold, and when it is renewed or confirmed. No I/O; the time is an argument.

use std::time::Duration;

use super::levels::{LevelId, Levels};
use crate::base::clock::Moment;
use crate::lease::{Terms, drift};
use crate::watchdog::{Schedule, slack};

/// While threads of this process wait for a lock, the watchdog confirms this often that Redis still
/// has the hold. So the waiting threads learn soon that another client has deleted the lock.
const CONFIRM_AWAITED: Duration = Duration::from_secs(1);

/// The levels of a hold, and its lease by the local clock.
#[derive(Debug)]
pub(super) struct LeaseState {
    levels: Levels,
    /// When the last request was sent whose reply confirmed the hold.
    confirmed: Moment,
    /// When the hold ends in this process: before the lease can end on the server.
    expires: Moment,
    /// When the lease ends on the server, if both clocks run at one speed.
    lease_ends: Moment,
    /// Threads of this process wait for the lock.
    is_awaited: bool,
}

/// What the watchdog does for a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Wait,
    /// Renew for this many milliseconds. With 0, only confirm that Redis has the hold.
    Renew(u64),
    /// End the hold, because no level may be renewed any more.
    LimitReached,
}

impl LeaseState {
    /// The lease of a lock that Redis granted to a request that was sent after `asked`.
    pub(super) fn new(terms: Terms, asked: Moment) -> Self {
        let mut state = Self {
            levels: Levels::new(terms),
            confirmed: asked,
            expires: asked,
            lease_ends: asked,
            is_awaited: false,
        };
        state.granted(asked, terms.millis);
        state
    }

    pub(super) fn expires(&self) -> Moment {
        self.expires
    }

    pub(super) fn lease_ends(&self) -> Moment {
        self.lease_ends
    }

    pub(super) fn set_awaited(&mut self, is_awaited: bool) {
        self.is_awaited = is_awaited;
    }

    pub(super) fn count(&self) -> u32 {
        self.levels.count()
    }

    pub(super) fn push(&mut self, terms: Terms) -> LevelId {
        self.levels.push(terms)
    }

    pub(super) fn guard(&mut self, level: LevelId) {
        self.levels.guard(level);
    }

    pub(super) fn unguarded(&self) -> usize {
        self.levels.unguarded()
    }

    pub(super) fn pop(&mut self, level: Option<LevelId>) -> Option<u32> {
        self.levels.pop(level)
    }

    /// Records that Redis prolonged the lease to `millis` by a request that was sent after `asked`.
    pub(super) fn granted(&mut self, asked: Moment, millis: u64) {
        let lease = Duration::from_millis(millis);
        self.expires = self.expires.max(asked.after(lease - drift(lease)));
        self.lease_ends = self.lease_ends.max(asked.after(lease));
        self.confirmed = self.confirmed.max(asked);
    }

    /// Records the reply to a renewal that was sent after `asked`. With 0 `millis`, Redis only
    /// confirmed that it has the hold.
    pub(super) fn renewed(&mut self, asked: Moment, millis: u64) {
        if millis > 0 {
            self.levels.renewed();
        }
        self.granted(asked, millis);
    }

    /// When the watchdog next handles the hold. `due` is at the latest:
    ///
    /// * before the last third of a renewed lease begins;
    /// * two thirds of a lease after the hold was last confirmed, also if the lease was extended;
    /// * while threads wait for the lock, [`CONFIRM_AWAITED`] after the hold was last confirmed;
    /// * at the end of the lease.
    pub(super) fn schedule(&self) -> Schedule {
        let pace = self.levels.pace();
        let confirm = self.confirm_by().unwrap_or(Moment::NEVER);
        let due = self.confirm_again().min(confirm).min(self.expires);
        let retry = slack(pace).max(Duration::from_millis(2));
        if self.levels.are_fixed() {
            return Schedule {
                due,
                ends: self.expires,
                lease: None,
                retry,
            };
        }
        Schedule {
            due: due.min(self.renew_by()),
            ends: self.expires,
            lease: Some(pace),
            retry,
        }
    }

    /// What the watchdog does at `now` for a hold that has not ended. What is due within
    /// [`slack`] is done now.
    pub(super) fn action_at(&self, now: Moment) -> Action {
        let soon = now.after(slack(self.levels.pace()));
        let latest_confirm = now.after(slack(CONFIRM_AWAITED));
        let confirms = self.confirm_by().is_some_and(|by| by <= latest_confirm);
        if self.levels.are_fixed() {
            // Never renewed, but confirmed once, so that the holder learns of a deleted lock.
            let confirms_again =
                self.confirm_again() <= soon && self.confirm_again() < self.expires;
            return if confirms_again || confirms {
                Action::Renew(0)
            } else {
                Action::Wait
            };
        }
        let due = self.confirm_again().min(self.renew_by()).min(self.expires);
        if due > soon && !confirms {
            Action::Wait
        } else if self.renew_by() > soon {
            // Threads wait for it, or it was extended: no renewal is needed yet.
            Action::Renew(0)
        } else if self.levels.are_used_up() {
            Action::LimitReached
        } else {
            Action::Renew(self.levels.lease_millis())
        }
    }

    /// Before the last third of the lease begins. The allowance for drift shortens that third, so
    /// it does not make renewals earlier.
    fn renew_by(&self) -> Moment {
        let pace = self.levels.pace();
        let last_third = (pace / 3).saturating_sub(drift(pace));
        self.expires.before(last_third + slack(pace))
    }

    /// When the hold is confirmed because threads wait for the lock.
    fn confirm_by(&self) -> Option<Moment> {
        self.is_awaited
            .then(|| self.confirmed.after(CONFIRM_AWAITED))
    }

    /// When the hold is confirmed although nothing else is due.
    fn confirm_again(&self) -> Moment {
        let pace = self.levels.pace();
        self.confirmed.after(pace / 3 * 2).before(slack(pace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Renewals;
    use proptest::prelude::*;

    const LEASE: u64 = 3000;
    const HOUR: u64 = 3_600_000;

    fn at(millis: u64) -> Moment {
        Moment::ZERO.after(Duration::from_millis(1_000_000 + millis))
    }

    fn terms(millis: u64, renewals: Renewals) -> Terms {
        Terms { millis, renewals }
    }

    /// The end of a hold that was granted `millis` at `asked`.
    fn end(asked: u64, millis: u64) -> Moment {
        at(asked + millis).before(drift(Duration::from_millis(millis)))
    }

    fn taken(renewals: Renewals) -> LeaseState {
        LeaseState::new(terms(LEASE, renewals), at(0))
    }

    #[test]
    fn a_renewed_hold_is_due_a_little_before_its_last_third() {
        let state = taken(Renewals::Unlimited);
        let due = state.schedule().due;
        assert!(due <= at(LEASE * 2 / 3) && due >= at(LEASE * 2 / 3 - LEASE / 16));
        assert_eq!(state.action_at(at(0)), Action::Wait);
        assert_eq!(state.action_at(due), Action::Renew(LEASE));
    }

    #[test]
    fn a_renewal_counts_from_before_it_was_sent() {
        let mut state = taken(Renewals::Unlimited);
        state.renewed(at(2000), LEASE);
        assert_eq!(state.expires(), end(2000, LEASE));
        assert!(state.schedule().due > at(2000));
    }

    #[test]
    fn a_fixed_lease_is_confirmed_once_and_never_renewed() {
        let mut state = taken(Renewals::None);
        let due = state.schedule().due;
        assert!(due <= at(LEASE * 2 / 3));
        assert_eq!(state.action_at(due), Action::Renew(0));
        state.renewed(due, 0);
        assert_eq!(state.expires(), end(0, LEASE));
        assert_eq!(state.schedule().due, end(0, LEASE));
        assert_eq!(state.action_at(at(LEASE - 1)), Action::Wait);
    }

    #[test]
    fn an_awaited_hold_is_confirmed_every_second_until_no_thread_waits() {
        for renewals in [Renewals::Unlimited, Renewals::None] {
            let mut state = LeaseState::new(terms(HOUR, renewals), at(0));
            state.set_awaited(true);
            for second in 1..10 {
                let due = state.schedule().due;
                assert_eq!(due, at(second * 1000));
                assert_eq!(state.action_at(at(second * 1000 - 900)), Action::Wait);
                assert_eq!(state.action_at(due), Action::Renew(0));
                state.renewed(due, 0);
            }
            state.set_awaited(false);
            assert!(state.schedule().due > at(HOUR / 2));
            assert_eq!(state.action_at(at(10_000)), Action::Wait);
            assert_eq!(state.expires(), end(0, HOUR));
        }
    }

    #[test]
    fn an_awaited_hold_is_renewed_and_ends_like_any_other() {
        let mut state = taken(Renewals::Unlimited);
        let due = state.schedule().due;
        state.set_awaited(true);
        state.renewed(at(1000), 0);
        assert_eq!(state.action_at(due), Action::Renew(LEASE));
        let mut fixed = taken(Renewals::None);
        fixed.set_awaited(true);
        fixed.renewed(at(LEASE - 500), 0);
        assert_eq!(fixed.schedule().due, end(0, LEASE));
        let mut short = LeaseState::new(terms(300, Renewals::Unlimited), at(0));
        let schedule = short.schedule();
        short.set_awaited(true);
        assert_eq!(
            short.schedule(),
            schedule,
            "it is renewed more often anyway"
        );
    }

    #[test]
    fn used_up_renewals_are_reported_before_the_lease_ends() {
        let mut state = taken(Renewals::Left(1));
        let first = state.schedule().due;
        assert_eq!(state.action_at(first), Action::Renew(LEASE));
        state.renewed(first, LEASE);
        let second = state.schedule().due;
        assert_eq!(state.action_at(second), Action::LimitReached);
        assert!(second < state.expires());
    }

    #[test]
    fn a_failed_renewal_is_retried_before_the_lease_ends() {
        let state = taken(Renewals::Unlimited);
        let schedule = state.schedule();
        let again = |failed: Moment| schedule.not_before(failed.after(schedule.retry)).due;
        assert!(again(at(2000)) > at(2000) && again(at(2000)) < state.expires());
        assert_eq!(again(end(0, LEASE)), state.expires());
    }

    #[test]
    fn an_extended_lease_is_confirmed_as_often_as_before() {
        let mut state = taken(Renewals::Unlimited);
        state.granted(at(0), HOUR);
        state.push(terms(HOUR, Renewals::None));
        assert!(state.schedule().due <= at(LEASE * 2 / 3));
        assert_eq!(state.action_at(at(LEASE * 2 / 3)), Action::Renew(0));
    }

    #[test]
    fn a_limit_is_reported_shortly_before_the_lease_ends() {
        // In both orders of the longer and the limited lease.
        for (outer, inner) in [
            (terms(LEASE, Renewals::Left(0)), terms(HOUR, Renewals::None)),
            (terms(HOUR, Renewals::None), terms(LEASE, Renewals::Left(0))),
        ] {
            let mut state = LeaseState::new(outer, at(0));
            state.granted(at(0), inner.millis);
            state.push(inner);
            assert_eq!(state.action_at(at(LEASE * 2 / 3)), Action::Renew(0));
            state.renewed(at(LEASE * 2 / 3), 0);
            assert_eq!(
                state.action_at(end(0, HOUR).before(Duration::from_millis(LEASE / 3))),
                Action::LimitReached
            );
        }
    }

    #[test]
    fn a_confirmation_uses_up_no_renewal() {
        let mut state = taken(Renewals::Left(1));
        state.granted(at(0), HOUR);
        for round in 1..10 {
            let now = at(round * LEASE * 2 / 3);
            assert_eq!(state.action_at(now), Action::Renew(0));
            state.renewed(now, 0);
        }
        assert_eq!(
            state.action_at(end(0, HOUR).before(Duration::from_millis(LEASE / 3))),
            Action::Renew(LEASE)
        );
    }

    #[test]
    fn a_short_inner_level_does_not_shorten_a_renewed_one() {
        let mut state = taken(Renewals::Unlimited);
        let before = state.schedule();
        state.granted(at(0), 10);
        state.push(terms(10, Renewals::None));
        state.pop(None);
        assert_eq!(state.schedule(), before);
        assert_eq!(state.expires(), end(0, LEASE));
    }

    /// The allowance for drift makes neither the renewal nor the end of the lease earlier.
    #[test]
    fn a_hold_ends_before_its_lease_ends_on_the_server() {
        for millis in [1, 2, 10, LEASE, HOUR] {
            let mut state = LeaseState::new(terms(millis, Renewals::Unlimited), at(0));
            for asked in [0, millis / 2] {
                state.renewed(at(asked), millis);
                assert!(state.expires() < at(asked + millis));
                assert_eq!(state.lease_ends(), at(asked + millis));
            }
        }
        let due = taken(Renewals::Unlimited).schedule().due;
        let slack = slack(Duration::from_millis(LEASE));
        assert_eq!(due, at(LEASE * 2 / 3).before(slack));
    }

    proptest! {
        /// For all levels and grants: the watchdog handles the hold before the lease ends and
        /// within two thirds of it, and the end never moves back.
        #[test]
        fn the_watchdog_is_always_due_in_time(
            steps in prop::collection::vec((0..3u8, 0..3usize, 50..100_000u64, 0..5000u64), 1..30),
        ) {
            let mut state = taken(Renewals::Unlimited);
            let (mut now, mut expires) = (0, state.expires());
            for (kind, renewals, millis, later) in steps {
                now += later;
                let renewals = [Renewals::None, Renewals::Left(2), Renewals::Unlimited][renewals];
                match kind {
                    0 => {
                        state.granted(at(now), millis);
                        state.push(terms(millis, renewals));
                    }
                    1 if state.count() > 1 => {
                        state.pop(None);
                    }
                    _ => state.renewed(at(now), state.levels.lease_millis()),
                }
                let due = state.schedule().due;
                prop_assert!(due <= state.expires());
                prop_assert!(state.renew_by() < state.expires());
                prop_assert!(due <= state.confirmed.after(state.levels.pace() / 3 * 2));
                prop_assert!(state.expires() >= expires);
                expires = state.expires();
            }
        }
    }
}
