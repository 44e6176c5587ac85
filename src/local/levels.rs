//! The levels of a hold, and what they ask for together. Pure.

use std::time::Duration;

use crate::lease::{Renewals, Terms};

/// Tells one level from another: guards may be dropped in any order.
pub(crate) type LevelId = u32;

/// What every acquire of the hold that was not given up yet asked for.
#[derive(Debug)]
pub(super) struct Levels {
    held: Vec<(LevelId, Terms)>,
    next: LevelId,
}

impl Levels {
    pub(super) const FIRST: LevelId = 0;

    pub(super) fn new(terms: Terms) -> Self {
        Self {
            held: vec![(Self::FIRST, terms)],
            next: Self::FIRST + 1,
        }
    }

    pub(super) fn push(&mut self, terms: Terms) -> LevelId {
        let id = self.next;
        self.next += 1;
        self.held.push((id, terms));
        id
    }

    /// Gives up the newest level or the one that is named; how many stay, or `None` if it is not there.
    pub(super) fn pop(&mut self, level: Option<LevelId>) -> Option<u32> {
        let place = match level {
            None => self.held.len().checked_sub(1)?,
            Some(id) => self.held.iter().position(|&(held, _)| held == id)?,
        };
        self.held.remove(place);
        Some(self.count())
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.held.len()).unwrap_or(u32::MAX)
    }

    /// The longest lease that any level asks for.
    pub(super) fn lease(&self) -> Duration {
        let longest = self.held.iter().map(|(_, terms)| terms.millis).max();
        Duration::from_millis(longest.unwrap_or(0))
    }

    /// No level asked for renewal.
    pub(super) fn are_fixed(&self) -> bool {
        self.all(|renewals| renewals == Renewals::None)
    }

    /// No level may be renewed any more.
    pub(super) fn are_used_up(&self) -> bool {
        self.all(|renewals| matches!(renewals, Renewals::None | Renewals::Left(0)))
    }

    pub(super) fn renewed(&mut self) {
        for (_, terms) in &mut self.held {
            if let Renewals::Left(n) = &mut terms.renewals {
                *n = n.saturating_sub(1);
            }
        }
    }

    fn all(&self, mut condition: impl FnMut(Renewals) -> bool) -> bool {
        self.held.iter().all(|(_, terms)| condition(terms.renewals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn terms(millis: u64, renewals: Renewals) -> Terms {
        Terms { millis, renewals }
    }

    #[test]
    fn the_longest_lease_counts_as_long_as_its_level_is_held() {
        let mut levels = Levels::new(terms(3000, Renewals::Unlimited));
        levels.push(terms(10, Renewals::None));
        assert_eq!(levels.lease(), Duration::from_secs(3), "never shortened");
        let long = levels.push(terms(9000, Renewals::None));
        assert_eq!(levels.lease(), Duration::from_secs(9));
        assert_eq!(levels.pop(Some(long)), Some(2));
        assert_eq!(levels.lease(), Duration::from_secs(3));
    }

    #[test]
    fn one_level_that_asks_for_renewal_is_enough_and_no_more_than_needed() {
        let mut levels = Levels::new(terms(1000, Renewals::None));
        assert!(levels.are_fixed());
        let renewed = levels.push(terms(1000, Renewals::Unlimited));
        levels.push(terms(1000, Renewals::None));
        assert!(!levels.are_fixed());
        // Guards may be dropped in any order: it is the named level that goes, and it goes once.
        assert_eq!(levels.pop(Some(renewed)), Some(2));
        assert!(levels.are_fixed());
        assert_eq!(levels.pop(Some(renewed)), None);
    }

    #[test]
    fn renewals_are_used_up_one_by_one() {
        let mut levels = Levels::new(terms(1000, Renewals::Left(2)));
        for _ in 0..2 {
            assert!(!levels.are_used_up());
            levels.renewed();
        }
        assert!(levels.are_used_up() && !levels.are_fixed());
        let unlimited = levels.push(terms(1000, Renewals::Unlimited));
        assert!(
            !levels.are_used_up(),
            "a level without a limit keeps the hold"
        );
        levels.pop(Some(unlimited));
        assert!(levels.are_used_up());
    }

    proptest! {
        /// Against a plain list: whatever levels come and go.
        #[test]
        fn levels_come_and_go(steps in prop::collection::vec((any::<bool>(), 1..100_000u64), 1..40)) {
            let mut levels = Levels::new(terms(5000, Renewals::Unlimited));
            let mut model = vec![5000];
            for (push, millis) in steps {
                if push {
                    levels.push(terms(millis, Renewals::None));
                    model.push(millis);
                } else {
                    let left = model.pop().map(|_| model.len() as u32);
                    prop_assert_eq!(levels.pop(None), left);
                }
                prop_assert_eq!(levels.count() as usize, model.len());
                let longest = model.iter().max().copied().unwrap_or(0);
                prop_assert_eq!(levels.lease(), Duration::from_millis(longest));
            }
        }
    }
}
