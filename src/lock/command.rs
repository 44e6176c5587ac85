//! What the command `leasehold` asks of a lock beside what everybody can.

use std::time::Duration;

use super::{LockGuard, standing};
use crate::core::Core;
use crate::error::Result;
use crate::lease::whole_millis;

impl LockGuard {
    /// Asks Redis whether the lock still stands. A loss is told as every other; without an answer nothing is
    /// known. Of several servers those that did not answer lately may be left out.
    pub(crate) fn confirm(&self) {
        match &self.parts[..] {
            [only] => standing::confirm(&only.core, &only.hold),
            parts => {
                let budget = self.budget(Core::budget_for_a_reply);
                standing::confirm_all(parts, self.needed, &budget);
            }
        }
    }

    /// As [`unlock`](Self::unlock), but leaves the lock in Redis for `time` more, from 1 ms on, whatever was
    /// left of its lease: until then nobody can have it.
    pub(crate) fn leave(mut self, time: Duration) -> Result<()> {
        let millis = whole_millis("time", time)?;
        for part in &self.parts {
            part.hold.stay(millis);
        }
        self.finish(Core::budget_to_unlock)
    }
}
