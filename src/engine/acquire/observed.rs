//! Observes the calls that acquire a lock.

use crate::core::Core;
use crate::engine::held::HeldPart;
use crate::engine::parts::Parts;
use crate::error::Result;
use crate::local::Hold;
use crate::observe::{Acquired, are_spans_enabled, wait};

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
        match &result {
            Ok(value) if held(value).is_some() => {}
            Ok(_) => core.observer.failed_acquire(None),
            Err(error) => core.observer.failed_acquire(Some(error)),
        }
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
        let acquired = |value: &T| match held(value) {
            Some(held) if held.iter().any(|part| is_new(&part)) => Acquired::Yes,
            Some(_) => Acquired::Reentered,
            None => Acquired::No,
        };
        let result = wait(self.name(), self.type_name(), call, acquired)?;
        for part in held(&result).into_iter().flatten().filter(is_new) {
            let node = part.core.node(part.hold.key());
            part.hold.begin_span(self.type_name(), &node);
        }
        Ok(result)
    }
}
