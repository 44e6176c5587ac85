//! Observes the calls that acquire a lock.

use std::sync::atomic::Ordering;

use crate::core::Core;
use crate::engine::held::HeldPart;
use crate::engine::parts::{Part, Parts};
use crate::error::Result;
use crate::local::Hold;
use crate::observe::{Outcome, WaitSpan, are_spans_enabled, tell};

impl Parts {
    /// Makes a call that acquires the lock, within a span, and counts its failure. Then begins the
    /// spans of the new holds. `held` is what the call has acquired; `None` if it has not acquired
    /// the lock.
    pub(super) fn observed<T>(
        &self,
        core: &Core,
        held: fn(&T) -> Option<&[HeldPart]>,
        call: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let is_new = |part: &&HeldPart| part.level == Hold::FIRST_LEVEL;
        let outcome = |value: &T| match held(value) {
            Some(held) if held.iter().any(|part| is_new(&part)) => Outcome::Acquired,
            Some(_) => Outcome::Reentered,
            None => Outcome::Timeout,
        };
        let span = WaitSpan::enter(self.name(), self.type_name());
        let result = call();
        let outcome = Outcome::of(&result, outcome);
        span.end(outcome.label());
        core.observer.count_failure(outcome);
        if are_spans_enabled() {
            // The spans of the new holds are not within that of the wait.
            let held = result.iter().filter_map(held).flatten();
            for part in held.filter(is_new) {
                let node = part.core.node(part.hold.key());
                part.hold.begin_span(self.type_name(), &node);
            }
        }
        result
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

/// Logs, once for each client, that Redis refuses the line of a lock for which a thread waits.
pub(super) fn log_that_there_is_no_line(lock: &Part) {
    if lock.core.logged_no_line.swap(true, Ordering::Relaxed) {
        return;
    }
    let (name, node) = (lock.key.shared_name(), lock.node());
    tell(move || {
        tracing::warn!(
            lock = &*name,
            node = &*node,
            "Redis refuses the line of a lock, so each release wakes all waiting clients; if the user \
             lacks permissions, allow the keys leasehold_line:* and the commands ZADD, ZCOUNT, ZRANGE, \
             ZRANGEBYSCORE, ZRANK, ZREM and ZSCORE"
        );
    });
}
