//! The levels of a hold, and the lease that they need together. No I/O; the time is an argument.

use std::time::Duration;

use crate::base::{List, Moment};
use crate::lease::{Renewals, Terms};

/// Identifies a level, because guards may be dropped in any order. 32 bits could be used up while
/// the outermost level is held.
pub(crate) type LevelId = u64;

/// The levels that are not unlocked yet, oldest first, with the lease that each acquire asked for.
#[derive(Debug, Default)]
pub(super) struct Levels {
    held: List<Level>,
    next: LevelId,
    /// Their thread has ended.
    are_abandoned: bool,
}

#[derive(Debug)]
struct Level {
    id: LevelId,
    terms: Terms,
    /// Only its guard removes it.
    guarded: bool,
}

impl Levels {
    pub(super) const FIRST: LevelId = 0;

    pub(super) fn new(terms: Terms, now: Moment) -> Self {
        let mut levels = Self::default();
        levels.push(terms, now);
        levels
    }

    pub(super) fn push(&mut self, mut terms: Terms, now: Moment) -> LevelId {
        if let Renewals::For(max) = terms.renewals {
            terms.renewals = Renewals::Until(now.after(max));
        }
        let id = self.next;
        self.next += 1;
        self.held.push(Level {
            id,
            terms,
            guarded: false,
        });
        id
    }

    pub(super) fn guard(&mut self, id: LevelId) {
        for level in self.held.iter_mut().filter(|level| level.id == id) {
            level.guarded = true;
        }
    }

    /// Removes `level`, or the newest level without a guard. Returns the number of levels that are
    /// left, or `None` if there is no such level.
    pub(super) fn pop(&mut self, level: Option<LevelId>) -> Option<u32> {
        let index = match level {
            Some(id) => self.held.iter().position(|level| level.id == id)?,
            None => self.held.iter().rposition(|level| !level.guarded)?,
        };
        self.held.remove(index);
        Some(self.count())
    }

    /// The terms of the newest level.
    pub(super) fn newest(&self) -> Option<Terms> {
        self.held.last().map(|level| level.terms)
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.held.len()).unwrap_or(u32::MAX)
    }

    /// The number of levels without a guard.
    pub(super) fn unguarded(&self) -> usize {
        self.held.iter().filter(|level| !level.guarded).count()
    }

    /// The longest lease of any level, in milliseconds.
    pub(super) fn lease_millis(&self) -> u64 {
        self.longest(|_| true)
    }

    /// The lease that decides when the watchdog renews: the longest renewed one, or the longest of
    /// all if none is renewed.
    pub(super) fn pace(&self) -> Duration {
        Duration::from_millis(match self.longest_renewed() {
            0 => self.lease_millis(),
            renewed => renewed,
        })
    }

    /// The longest renewed lease of any level, in milliseconds; 0 without one.
    pub(super) fn longest_renewed(&self) -> u64 {
        self.longest(|renewals| renewals != Renewals::None)
    }

    /// The longest lease of any level that is renewed without a limit, in milliseconds; 0 without
    /// one.
    pub(super) fn longest_unlimited(&self) -> u64 {
        self.longest(|renewals| renewals == Renewals::Unlimited)
    }

    fn longest(&self, condition: impl Fn(Renewals) -> bool) -> u64 {
        let levels = self.held.iter().map(|level| level.terms);
        let levels = levels.filter(|terms| condition(terms.renewals));
        levels.map(|terms| terms.millis).max().unwrap_or(0)
    }

    /// True if no level has a renewed lease.
    pub(super) fn are_fixed(&self) -> bool {
        self.longest_renewed() == 0
    }

    /// The lease of a renewal at `now`, in milliseconds: the longest of the levels that may be
    /// renewed. `None` if there is no such level any more.
    pub(super) fn renewal_at(&self, now: Moment) -> Option<u64> {
        let levels = self.held.iter().map(|level| level.terms);
        let renewed = levels.filter(|terms| !terms.is_used_up(now));
        renewed.map(|terms| terms.millis_at(now)).max()
    }

    /// Makes all leases fixed, because their thread has ended. False if that was done before.
    pub(super) fn abandon(&mut self) -> bool {
        for level in &mut self.held {
            level.terms.renewals = Renewals::None;
        }
        !std::mem::replace(&mut self.are_abandoned, true)
    }

    /// Makes all moments earlier by this time, which a test skips.
    #[cfg(feature = "testing")]
    pub(super) fn shift_back(&mut self, time: Duration) {
        for level in &mut self.held {
            if let Renewals::Until(end) = &mut level.terms.renewals {
                *end = end.before(time);
            }
        }
    }

    /// Counts a renewal for this many milliseconds against the limits of all levels. With 0, Redis
    /// only confirmed the lock.
    pub(super) fn renewed(&mut self, millis: u64) {
        if millis == 0 {
            return;
        }
        for level in &mut self.held {
            if let Renewals::Left(n) = &mut level.terms.renewals {
                *n = n.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Moment = Moment::ZERO;

    fn terms(millis: u64, renewals: Renewals) -> Terms {
        Terms { millis, renewals }
    }

    #[test]
    fn the_longest_lease_counts_while_its_level_is_held() {
        let mut levels = Levels::new(terms(3000, Renewals::Unlimited), NOW);
        levels.push(terms(10, Renewals::None), NOW);
        assert_eq!(levels.lease_millis(), 3000, "never shortened");
        let long = levels.push(terms(9000, Renewals::None), NOW);
        assert_eq!(levels.lease_millis(), 9000);
        assert_eq!(
            levels.pace(),
            Duration::from_secs(3),
            "of the renewed level"
        );
        assert_eq!(levels.pop(Some(long)), Some(2));
        assert_eq!(levels.lease_millis(), 3000);
    }

    #[test]
    fn only_its_guard_removes_a_level_with_a_guard() {
        let mut levels = Levels::new(terms(1000, Renewals::None), NOW);
        let guarded = levels.push(terms(2000, Renewals::None), NOW);
        levels.guard(guarded);
        assert_eq!(levels.unguarded(), 1);
        assert_eq!(levels.pop(None), Some(1));
        assert_eq!(levels.lease_millis(), 2000, "the guard's level stays");
        assert_eq!((levels.unguarded(), levels.pop(None)), (0, None));
        assert_eq!(levels.count(), 1);
        assert_eq!(levels.pop(Some(guarded)), Some(0));
        assert_eq!(levels.pop(Some(guarded)), None);
    }

    #[test]
    fn a_level_is_found_after_any_number_of_others() {
        let outer = terms(1000, Renewals::Unlimited);
        let mut levels = Levels::new(outer, NOW);
        levels.next = LevelId::from(u32::MAX);
        for _ in 0..3 {
            let inner = levels.push(outer, NOW);
            levels.guard(inner);
            assert_eq!(levels.unguarded(), 1, "the outer one");
            assert_eq!(levels.pop(Some(inner)), Some(1));
        }
        assert_eq!(levels.pop(None), Some(0));
    }

    #[test]
    fn one_renewed_level_is_enough() {
        let mut levels = Levels::new(terms(1000, Renewals::None), NOW);
        assert!(levels.are_fixed());
        let renewed = levels.push(terms(1000, Renewals::Unlimited), NOW);
        levels.push(terms(1000, Renewals::None), NOW);
        assert!(!levels.are_fixed());
        assert_eq!(levels.pop(Some(renewed)), Some(2));
        assert!(levels.are_fixed());
        assert_eq!(levels.pop(Some(renewed)), None);
    }

    #[test]
    fn renewals_are_used_up_one_by_one() {
        let mut levels = Levels::new(terms(1000, Renewals::Left(2)), NOW);
        for _ in 0..2 {
            assert!(levels.renewal_at(NOW).is_some());
            levels.renewed(1000);
        }
        assert!(levels.renewal_at(NOW).is_none() && !levels.are_fixed());
        let unlimited = levels.push(terms(1000, Renewals::Unlimited), NOW);
        assert!(
            levels.renewal_at(NOW).is_some(),
            "a level without a limit keeps the hold"
        );
        levels.pop(Some(unlimited));
        assert!(levels.renewal_at(NOW).is_none());
    }

    #[test]
    fn a_renewal_ends_at_the_limit_of_the_longest_level() {
        let after = |millis| NOW.after(Duration::from_millis(millis));
        let limited = terms(1000, Renewals::For(Duration::from_millis(3000)));
        let mut levels = Levels::new(limited, after(500));
        let renewals = |levels: &Levels| {
            [0, 2500, 2501, 2999, 3000, 9000].map(|at| levels.renewal_at(after(at)))
        };
        let alone = [Some(1000), Some(1000), Some(999), Some(501), None, None];
        assert_eq!(renewals(&levels), alone);
        levels.push(terms(800, Renewals::Left(0)), NOW);
        assert_eq!(renewals(&levels)[4..], [None, None]);
        levels.push(terms(800, Renewals::Unlimited), NOW);
        assert_eq!(
            renewals(&levels)[2..],
            [Some(999), Some(800), Some(800), Some(800)]
        );
    }

    #[test]
    fn a_fixed_level_makes_no_renewal_longer() {
        let after = |millis| NOW.after(Duration::from_millis(millis));
        let limited = terms(1000, Renewals::For(Duration::from_millis(3000)));
        let mut levels = Levels::new(limited, NOW);
        levels.push(terms(2000, Renewals::None), NOW);
        levels.push(terms(2000, Renewals::Left(0)), NOW);
        let renewals = [0, 2400, 2600].map(|at| levels.renewal_at(after(at)));
        assert_eq!(renewals, [Some(1000), Some(600), None]);
    }

    #[test]
    fn a_hold_is_abandoned_once_and_then_renewed_by_no_level() {
        let mut levels = Levels::new(terms(1000, Renewals::Unlimited), NOW);
        levels.push(terms(3000, Renewals::Left(2)), NOW);
        assert!(levels.abandon() && !levels.abandon());
        assert!(levels.are_fixed());
        assert_eq!(levels.lease_millis(), 3000);
    }

    proptest! {
        /// Compares the levels with a plain list.
        #[test]
        fn levels_behave_like_a_list(
            steps in prop::collection::vec((any::<bool>(), 1..100_000u64), 1..40),
        ) {
            let mut levels = Levels::new(terms(5000, Renewals::Unlimited), NOW);
            let mut model = vec![5000];
            for (push, millis) in steps {
                if push {
                    levels.push(terms(millis, Renewals::None), NOW);
                    model.push(millis);
                } else {
                    let left = model.pop().map(|_| model.len() as u32);
                    prop_assert_eq!(levels.pop(None), left);
                }
                prop_assert_eq!(levels.count() as usize, model.len());
                let longest = model.iter().max().copied().unwrap_or(0);
                prop_assert_eq!(levels.lease_millis(), longest);
            }
        }
    }
}
