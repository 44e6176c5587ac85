//! The levels and the lease of one hold on a grant.
//!
//! Several threads share the grant of a read lock. Each of their holds has a lease state of its
//! own, and the watchdog renews the grant for the longest of them. The loss of the grant is
//! notified to all; a loss that is decided for one hold leaves the others. The last hold releases
//! the grant in Redis.

use std::sync::{Arc, Weak};

use super::{Grant, GrantState, Holder, Usage};
use crate::base::clock::Moment;
use crate::lease::{Renewals, Terms};
use crate::local::lease_state::LeaseState;

/// What a grant knows of one hold.
#[derive(Debug)]
pub(super) struct Share {
    /// The number of the hold; 0 before the first one begins.
    pub(super) number: u64,
    /// `None` before the first hold begins.
    pub(super) holder: Option<Weak<dyn Holder>>,
    pub(super) lease: LeaseState,
}

impl Share {
    /// The share of the first hold, which has not begun.
    pub(super) fn new(terms: Terms, asked: Moment) -> Self {
        Self {
            number: 0,
            holder: None,
            lease: LeaseState::new(terms, asked),
        }
    }
}

impl GrantState {
    /// True if this hold is live.
    pub(super) fn is_held_by(&self, hold: u64) -> bool {
        self.usage == Usage::Held && self.shares.iter().any(|share| share.number == hold)
    }

    /// When the grant ends in this process: with the last of its holds.
    pub(super) fn expires(&self) -> Moment {
        let ends = self.shares.iter().map(|share| share.lease.expires());
        ends.fold(Moment::ZERO, Moment::max)
    }

    /// The number of levels of all holds that use the grant.
    pub(super) fn count(&self) -> u32 {
        let counts = self.shares.iter().map(|share| share.lease.levels.count());
        counts.fold(0, u32::saturating_add)
    }
}

impl Grant {
    /// Applies `change` to the lease state of a hold, also of a lost one. `None` if the grant does
    /// not know the hold any more.
    pub(in crate::local) fn with_lease<R>(
        &self,
        hold: u64,
        change: impl FnOnce(&mut LeaseState) -> R,
    ) -> Option<R> {
        let GrantState { shares, lost, .. } = &mut *self.state.lock();
        let mut all = shares.iter_mut().chain(lost);
        let share = all.find(|share| share.number == hold)?;
        Some(change(&mut share.lease))
    }

    /// Adds a hold of another thread with these terms, which `make` makes from its number. `None`
    /// if the grant has no live hold, or if no hold keeps it as long as the terms need.
    pub(in crate::local) fn share<H: Holder + 'static>(
        &self,
        terms: Terms,
        now: Moment,
        make: impl FnOnce(u64) -> Arc<H>,
    ) -> Option<Arc<H>> {
        let mut state = self.state.lock();
        let is_live = state.usage == Usage::Held && now < state.expires();
        let is_kept = state.shares.iter().any(|share| share.lease.keeps(terms));
        // Other leases end at a time of their own. They need grants of their own.
        let is_unlimited = terms.renewals == Renewals::Unlimited;
        if !is_live || !is_kept || !is_unlimited || state.kept_in_redis.is_some() {
            return None;
        }
        let leases = state.shares.iter().map(|share| &share.lease);
        let longest = leases.max_by_key(|lease| lease.expires())?;
        let lease = longest.joined(terms);
        state.holds += 1;
        let number = state.holds;
        let hold = make(number);
        let holder: Weak<H> = Arc::downgrade(&hold);
        state.shares.push(Share {
            number,
            holder: Some(holder),
            lease,
        });
        Some(hold)
    }
}
