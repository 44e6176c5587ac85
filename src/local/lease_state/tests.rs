use super::*;
use crate::lease::LEASE_PARTS;
use crate::script;
use proptest::prelude::*;

const LEASE: u64 = 3000;
const HOUR: u64 = 3_600_000;

fn at(millis: u64) -> Moment {
    Moment::ZERO.after(Duration::from_millis(1_000_000 + millis))
}

fn terms(millis: u64, renewals: Renewals) -> Terms {
    Terms { millis, renewals }
}

#[test]
fn a_script_knows_when_leases_are_renewed() {
    assert_eq!(u64::from(LEASE_PARTS), script::constant("LEASE_PARTS"));
}

/// The end of a hold that was granted `millis` at `asked`.
fn end(asked: u64, millis: u64) -> Moment {
    at(asked + millis).before(drift(Duration::from_millis(millis)))
}

/// The levels of a hold, and its lease.
struct Held {
    levels: Levels,
    lease: LeaseState,
}

impl Held {
    fn new(terms: Terms, asked: Moment) -> Self {
        Self {
            levels: Levels::new(terms, asked),
            lease: LeaseState::new(Duration::from_millis(terms.millis), asked),
        }
    }

    fn renewed(&mut self, asked: Moment, millis: u64) {
        self.levels.renewed(millis);
        self.lease.granted(asked, Duration::from_millis(millis));
    }

    fn schedule(&self) -> Schedule {
        self.lease.schedule(&self.levels)
    }

    fn action_at(&self, now: Moment) -> Action {
        self.lease.action_at(&self.levels, now)
    }
}

fn taken(renewals: Renewals) -> Held {
    Held::new(terms(LEASE, renewals), at(0))
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
    assert_eq!(state.lease.expires, end(2000, LEASE));
    assert!(state.schedule().due > at(2000));
}

#[test]
fn a_fixed_lease_is_confirmed_once_and_never_renewed() {
    let mut state = taken(Renewals::None);
    let due = state.schedule().due;
    assert!(due <= at(LEASE * 2 / 3));
    assert_eq!(state.action_at(due), Action::Renew(0));
    state.renewed(due, 0);
    assert_eq!(state.lease.expires, end(0, LEASE));
    assert_eq!(state.schedule().due, end(0, LEASE));
    assert_eq!(state.action_at(at(LEASE - 1)), Action::Wait);
}

/// Also soon after the start of the machine, and if the reply to an earlier request arrives later.
#[test]
fn a_confirmation_that_is_wanted_is_due_until_a_later_request_confirms() {
    let early = |millis| Moment::ZERO.after(Duration::from_millis(millis));
    let mut state = Held::new(terms(HOUR, Renewals::Unlimited), early(1));
    assert_eq!(state.action_at(early(30)), Action::Wait);
    state.lease.wanted = early(20);
    for earlier in [10, 19] {
        assert_eq!(state.schedule().due, Moment::ZERO);
        assert_eq!(state.action_at(early(30)), Action::Renew(0));
        state.renewed(early(earlier), 0);
    }
    assert_eq!(state.schedule().due, Moment::ZERO);
    state.renewed(early(20), 0);
    assert!(state.schedule().due > early(HOUR / 2));
    assert_eq!(state.action_at(early(30)), Action::Wait);
}

#[test]
fn used_up_renewals_are_reported_before_the_lease_ends() {
    let mut state = taken(Renewals::Left(1));
    let first = state.schedule().due;
    assert_eq!(state.action_at(first), Action::Renew(LEASE));
    state.renewed(first, LEASE);
    let second = state.schedule().due;
    assert_eq!(state.action_at(second), Action::LimitReached);
    assert!(second < state.lease.expires);
}

/// A watchdog that acts when it is due renews a hold for as long as its limit permits: the lease
/// never ends later, and the limit is reported when a third to a half of a lease is left.
#[test]
fn a_limit_in_time_is_reported_in_its_last_lease() {
    for max in (LEASE + 1..LEASE * 5).step_by(100) {
        let mut state = taken(Renewals::For(Duration::from_millis(max)));
        loop {
            let due = state.schedule().due;
            assert!(state.lease.lease_ends <= at(max));
            match state.action_at(due) {
                Action::Renew(0) => state.renewed(due, 0),
                Action::Renew(millis) => {
                    assert!(due.after(Duration::from_millis(LEASE / 3)) < at(max));
                    state.renewed(due, millis);
                }
                action => {
                    assert_eq!(action, Action::LimitReached);
                    let left = at(max).since(due);
                    let range = LEASE / 3..=LEASE / 2;
                    let is_in_time = range.contains(&(left.as_millis() as u64));
                    assert!(is_in_time, "{left:?} are left of {max} ms");
                    assert!(due < state.lease.expires);
                    break;
                }
            }
        }
    }
}

#[test]
fn an_extended_lease_is_confirmed_as_often_as_before() {
    let mut state = taken(Renewals::Unlimited);
    state.lease.granted(at(0), Duration::from_millis(HOUR));
    state.levels.push(terms(HOUR, Renewals::None), at(0));
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
        let mut state = Held::new(outer, at(0));
        state
            .lease
            .granted(at(0), Duration::from_millis(inner.millis));
        state.levels.push(inner, at(0));
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
    state.lease.granted(at(0), Duration::from_millis(HOUR));
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
    state.lease.granted(at(0), Duration::from_millis(10));
    state.levels.push(terms(10, Renewals::None), at(0));
    state.levels.pop(None);
    assert_eq!(state.schedule(), before);
    assert_eq!(state.lease.expires, end(0, LEASE));
}

/// The allowance for drift makes neither the renewal nor the end of the lease earlier.
#[test]
fn a_hold_ends_before_its_lease_ends_on_the_server() {
    for millis in [1, 2, 10, LEASE, HOUR] {
        let mut state = Held::new(terms(millis, Renewals::Unlimited), at(0));
        for asked in [0, millis / 2] {
            state.renewed(at(asked), millis);
            assert!(state.lease.expires < at(asked + millis));
            assert_eq!(state.lease.lease_ends, at(asked + millis));
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
        steps in prop::collection::vec((0..3u8, 0..4usize, 50..100_000u64, 0..5000u64), 1..30),
    ) {
        let mut state = taken(Renewals::Unlimited);
        let (mut now, mut expires) = (0, state.lease.expires);
        for (kind, renewals, millis, later) in steps {
            now += later;
            let limit = Renewals::For(Duration::from_millis(millis * 3));
            let left = Renewals::Left(2);
            let renewals = [Renewals::None, left, Renewals::Unlimited, limit][renewals];
            match kind {
                0 => {
                    state.lease.granted(at(now), Duration::from_millis(millis));
                    state.levels.push(terms(millis, renewals), at(now));
                }
                1 if state.levels.count() > 1 => {
                    state.levels.pop(None);
                }
                _ => state.renewed(at(now), state.levels.lease_millis()),
            }
            let due = state.schedule().due;
            prop_assert!(due <= state.lease.expires);
            prop_assert!(state.lease.renew_by(state.levels.pace()) < state.lease.expires);
            prop_assert!(due <= state.lease.confirmed.after(state.levels.pace() / 3 * 2));
            prop_assert!(state.lease.expires >= expires);
            expires = state.lease.expires;
        }
    }
}
