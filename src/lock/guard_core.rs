//! What the guards of locks and of permits have in common.

use std::cmp::Reverse;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::debug::{Short, state_of};
use crate::base::call_budget::CallBudget;
use crate::base::list::List;
use crate::base::subscription::Subscription;
use crate::core::Core;
use crate::engine::{
    HeldPart, Needed, Parts, are_of_this_process, combine, extend_all, release_all, slowest,
};
use crate::error::{Error, LostReason, Result};
use crate::lease::whole_millis;
use crate::local::Quorum;
use crate::observe::tell;

/// One level of a lock, or a permit. Dropping it releases it, and logs an error.
pub(super) struct GuardCore {
    name: Arc<str>,
    /// One part for each name or server.
    pub(super) parts: List<HeldPart>,
    /// The lock is held while this many parts are held.
    needed: Needed,
    /// Made by the first call of `lost` on a guard of several parts.
    quorum: OnceLock<Arc<Quorum>>,
    is_released: bool,
}

impl GuardCore {
    pub(super) fn new(lock: &Parts, parts: List<HeldPart>) -> Self {
        Self {
            name: lock.shared_name(),
            parts,
            needed: lock.needed(),
            quorum: OnceLock::new(),
            is_released: false,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn check(&self) -> Result<()> {
        combine(self.parts.iter().map(HeldPart::check), self.needed())
    }

    pub(super) fn is_lost(&self) -> bool {
        matches!(self.check(), Err(Error::Lost { .. }))
    }

    pub(super) fn lost(&self) -> Subscription<LostReason> {
        let is_same_process = self.is_same_process();
        if let [first, others @ ..] = &self.parts[..]
            && (others.is_empty() || !is_same_process)
        {
            return first.hold.subscribe_to_loss(is_same_process);
        }
        let holds = || self.parts.iter().map(|part| &part.hold);
        let observe = || Quorum::observe(holds(), self.needed());
        self.quorum.get_or_init(observe).subscribe_to_loss()
    }

    pub(super) fn remaining(&self) -> Duration {
        // A lease that has run out ends the hold.
        let _ = self.check();
        self.left()
    }

    /// What is left of the lease. Does not end a hold whose lease has run out.
    fn left(&self) -> Duration {
        let left = |part: &HeldPart| part.left().unwrap_or_default();
        let mut lefts: Vec<Duration> = self.parts.iter().map(left).collect();
        lefts.sort_unstable_by_key(|&left| Reverse(left));
        let last_needed = lefts.get(self.needed().saturating_sub(1));
        last_needed.copied().unwrap_or_default()
    }

    pub(super) fn extend(&self, duration: Duration) -> Result<()> {
        let millis = whole_millis("lease", duration);
        self.extend_to(millis.map_err(|error| error.concerning(self.name()))?)
    }

    pub(super) fn confirm(&self) -> Result<()> {
        self.extend_to(0)
    }

    /// Extends the lease so that at least this much of it is left.
    fn extend_to(&self, millis: u64) -> Result<()> {
        let budget = self.budget(Core::budget_for_a_reply);
        let parts: List<_> = self.parts.iter().map(|part| (part, millis)).collect();
        extend_all(&parts, self.needed, &budget)
    }

    pub(super) fn release(&mut self) -> Result<()> {
        self.release_within(Core::budget_to_unlock)
    }

    fn release_within(&mut self, budget: fn(&Core) -> CallBudget<'static>) -> Result<()> {
        self.is_released = true;
        release_all(&self.parts, self.needed, || self.budget(budget))
    }

    /// The number of needed parts.
    fn needed(&self) -> usize {
        self.needed.of(self.parts.len())
    }

    fn is_same_process(&self) -> bool {
        are_of_this_process(self.parts.iter().map(|part| &part.core))
    }

    fn budget(&self, of: fn(&Core) -> CallBudget<'static>) -> CallBudget<'static> {
        let core = slowest(self.parts.iter().map(|part| &part.core));
        core.map_or_else(|| CallBudget::for_reply(Duration::ZERO), |core| of(core))
    }

    /// The `Debug` output of a guard, with one more field if there is one. No I/O.
    pub(super) fn show(
        &self,
        f: &mut fmt::Formatter<'_>,
        guard: &str,
        more: Option<(&str, &dyn fmt::Debug)>,
    ) -> fmt::Result {
        let mut shown = f.debug_struct(guard);
        shown.field("name", &Short(&self.name));
        if let Some((field, value)) = more {
            shown.field(field, value);
        }
        let check = |part: &HeldPart| part.left().map(drop);
        let state = state_of(&combine(self.parts.iter().map(check), self.needed()));
        shown
            .field("state", &format_args!("{state}"))
            .field("remaining", &format_args!("{:.1?}", self.left()))
            .finish()
    }
}

impl Drop for GuardCore {
    fn drop(&mut self) {
        // In a forked child, a mutex may stay locked indefinitely.
        if self.is_released || !self.is_same_process() {
            return;
        }
        if let Err(error) = self.release_within(Core::budget_for_a_reply) {
            tell(move || {
                tracing::warn!(%error, "a guard was dropped, but what it holds was not released");
            });
        }
    }
}
