//! Observes the calls that acquire a lock.

use crate::core::Core;
use crate::engine::held::HeldPart;
use crate::engine::parts::{Part, Parts};
use crate::error::Result;
use crate::local::Hold;
use crate::observe::{Outcome, are_spans_enabled, tell, wait};

impl Parts {
    /// Makes a call that acquires the lock, and counts its failure. `held` is what the call has
    /// acquired; `None` if it has not acquired the lock.
    pub(super) fn observed<T>(
        &self,
        core: &Core,
        held: fn(&T) -> Option<&[HeldPart]>,
        call: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let result = if are_spans_enabled() {
            self.spanned(held, &call)
        } else {
            call()
        };
        let has_acquired = |value: &T| Outcome::of_wait(&held(value).is_some());
        let outcome = Outcome::of(&result, has_acquired);
        core.observer.count_failure(outcome);
        result
    }

    /// Makes a call within the span of a wait. Then begins the spans of the new holds, which are
    /// not within that of the wait.
    #[cold]
    fn spanned<T>(
        &self,
        held: fn(&T) -> Option<&[HeldPart]>,
        call: &dyn Fn() -> Result<T>,
    ) -> Result<T> {
        let is_new = |part: &&HeldPart| part.level == Hold::FIRST_LEVEL;
        let outcome = |value: &T| match held(value) {
            Some(held) if held.iter().any(|part| is_new(&part)) => Outcome::Acquired,
            Some(_) => Outcome::Reentered,
            None => Outcome::Timeout,
        };
        let result = wait(self.name(), self.type_name(), call, outcome)?;
        for part in held(&result).into_iter().flatten().filter(is_new) {
            let node = part.core.node(part.hold.key());
            part.hold.begin_span(self.type_name(), &node);
        }
        Ok(result)
    }
}

/// Logs that a thread waits although no release can end its wait.
pub(super) fn log_that_there_are_none(semaphore: &Part) {
    let (name, node) = (semaphore.key.shared_name(), semaphore.node());
    tell(move || {
        tracing::warn!(
            semaphore = &*name,
            node = &*node,
            "a thread waits for a permit, but the semaphore has no permits, available or leased; \
             set their number (set_permits): it was never set, or the key of the leases was lost"
        );
    });
}
