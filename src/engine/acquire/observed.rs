//! Observes the calls that acquire a lock.

use std::sync::atomic::Ordering;

use crate::base::list::List;
use crate::core::Core;
use crate::engine::held::HeldPart;
use crate::engine::parts::{Part, Parts};
use crate::error::Result;
use crate::local::Hold;
use crate::observe::{Outcome, WaitSpan, are_spans_enabled, tell};

impl Parts {
    /// Begins the span of a call that acquires the lock.
    pub(in crate::engine) fn begin_wait(&self) -> WaitSpan {
        WaitSpan::enter(self.name(), self.type_name())
    }

    /// Ends the span of a call that acquires the lock, and counts a failure. Then begins the spans
    /// of the new holds, which are not within that of the wait.
    pub(in crate::engine) fn end_wait(
        &self,
        span: WaitSpan,
        core: &Core,
        result: Result<Option<List<HeldPart>>>,
    ) -> Result<Option<List<HeldPart>>> {
        let is_new = |part: &&HeldPart| part.level == Hold::FIRST_LEVEL;
        let outcome = Outcome::of(&result, |held| match held {
            Some(held) if held.iter().any(|part| is_new(&part)) => Outcome::Acquired,
            Some(_) => Outcome::Reentered,
            None => Outcome::Timeout,
        });
        span.end(outcome.label());
        core.observer.count_failure(outcome);
        if are_spans_enabled() {
            let held = result.iter().flatten().flatten();
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
