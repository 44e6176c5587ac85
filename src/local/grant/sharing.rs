//! The further holds on a grant that several threads share.
//!
//! Each of these holds has a lease state of its own, and the watchdog renews the grant for the
//! longest of them. The loss of the grant is notified to all; a loss that is decided for one hold
//! leaves the others. The last hold releases the grant in Redis.

use std::sync::{Arc, Weak};

use super::{Grant, GrantState, Holder, Usage};
use crate::base::clock::Moment;
use crate::lease::{Renewals, Terms};
use crate::local::lease_state::LeaseState;

/// A hold besides that in the `usage` of the grant.
#[derive(Debug)]
pub(super) struct Sharer {
    pub(super) number: u64,
    /// `None` once it is lost. Its levels are kept until its thread unlocks them.
    pub(super) holder: Option<Weak<dyn Holder>>,
    pub(super) lease: LeaseState,
}

impl GrantState {
    /// When the grant ends in this process: with the last of its holds.
    pub(super) fn expires(&self) -> Moment {
        self.leases()
            .map(LeaseState::expires)
            .fold(Moment::ZERO, Moment::max)
    }

    /// The lease states of the live holds, or that of the last hold.
    pub(super) fn leases(&self) -> impl Iterator<Item = &LeaseState> {
        let live = self.sharers.iter().filter(|one| one.holder.is_some());
        std::iter::once(&self.lease).chain(live.map(|one| &one.lease))
    }

    /// The lease state of a hold, also of a lost one.
    pub(super) fn lease_of(&self, hold: u64) -> Option<&LeaseState> {
        if self.number == hold {
            return Some(&self.lease);
        }
        let mut sharers = self.sharers.iter();
        sharers.find(|one| one.number == hold).map(|one| &one.lease)
    }

    pub(super) fn lease_of_mut(&mut self, hold: u64) -> Option<&mut LeaseState> {
        if self.number == hold {
            return Some(&mut self.lease);
        }
        let mut sharers = self.sharers.iter_mut();
        sharers
            .find(|one| one.number == hold)
            .map(|one| &mut one.lease)
    }

    /// True if a live hold besides that in `usage` uses the grant.
    pub(super) fn is_shared(&self) -> bool {
        self.sharers.iter().any(|one| one.holder.is_some())
    }

    /// Puts another live hold in the place of the one in `usage`. Returns the holder and the lease
    /// state of that one; `None` if no other hold is live.
    pub(super) fn replace_first(&mut self) -> Option<(Usage, LeaseState)> {
        let at = self.sharers.iter().position(|one| one.holder.is_some())?;
        let Sharer {
            number,
            holder,
            lease,
        } = self.sharers.swap_remove(at);
        // The grant is held without a break: its confirmation is not put off.
        if self.seen.0 == self.number {
            self.seen.0 = number;
        }
        self.number = number;
        let lease = std::mem::replace(&mut self.lease, lease);
        let usage = Usage::Held(number, holder?);
        Some((std::mem::replace(&mut self.usage, usage), lease))
    }

    /// Applies `update` to the lease state of each live hold, with its number.
    pub(super) fn update_leases(&mut self, mut update: impl FnMut(u64, &mut LeaseState)) {
        update(self.number, &mut self.lease);
        for one in self.sharers.iter_mut().filter(|one| one.holder.is_some()) {
            update(one.number, &mut one.lease);
        }
    }
}

impl Grant {
    /// Adds a hold of another thread with these terms, which `make` makes from its number. `None`
    /// if the grant has no live hold, or if no hold keeps it as long as the terms need.
    pub(in crate::local) fn share<H: Holder + 'static>(
        &self,
        terms: Terms,
        now: Moment,
        make: impl FnOnce(u64) -> Arc<H>,
    ) -> Option<Arc<H>> {
        let mut state = self.state.lock();
        let is_live = matches!(state.usage, Usage::Held(..)) && now < state.expires();
        let is_kept = state.leases().any(|lease| lease.keeps(terms));
        // Other leases end at a time of their own. They need grants of their own.
        let is_unlimited = terms.renewals == Renewals::Unlimited;
        if !is_live || !is_kept || !is_unlimited || state.kept_in_redis.is_some() {
            return None;
        }
        state.holds += 1;
        let number = state.holds;
        let hold = make(number);
        let holder: Weak<H> = Arc::downgrade(&hold);
        let longest = state.leases().max_by_key(|lease| lease.expires());
        let lease = longest.unwrap_or(&state.lease).joined(terms);
        state.sharers.push(Sharer {
            number,
            holder: Some(holder),
            lease,
        });
        Some(hold)
    }
}
