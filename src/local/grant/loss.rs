//! The loss of a grant.

use super::{Grant, Usage};
use crate::error::LostReason;
use crate::observe::{LockEvent, tell};

impl Grant {
    /// Ends the grant as lost, and notifies its holder, the operator, and the threads of this
    /// process that wait for the lock. Does nothing if the grant has ended. After the end of the
    /// lease the reason is always [`LostReason::Expired`].
    pub(crate) fn lose(&self, found: LostReason) {
        self.end_as_lost(found, |_| true);
    }

    /// Ends the grant as lost if this hold uses it. Another hold may have got the grant since the
    /// loss of this one was decided: then this returns false.
    pub(in crate::local) fn lose_hold(&self, number: u64, found: LostReason) -> bool {
        self.end_as_lost(
            found,
            |usage| matches!(usage, Usage::Held(current, _) if *current == number),
        )
    }

    fn end_as_lost(&self, found: LostReason, is_meant: impl FnOnce(&Usage) -> bool) -> bool {
        let (hold, reason) = {
            let mut state = self.state.lock();
            if !is_meant(&state.usage) {
                return false;
            }
            let usage = std::mem::replace(&mut state.usage, Usage::Ended);
            let hold = match usage {
                Usage::Held(_, hold) => hold.upgrade(),
                // It is not handed over any more, and its release finds the loss.
                Usage::Free | Usage::Ended => return false,
                Usage::Idle(_) => None,
            };
            // After the end of the lease it is normal that the key is gone or has another owner.
            let reason = if state.lease.expires().is_past() {
                LostReason::Expired
            } else {
                found
            };
            if let Some(hold) = &hold {
                hold.end_as_lost(reason);
                // Counted before any thread can see the loss.
                self.observer.counters.count_loss();
            }
            (hold, reason)
        };
        let Some(hold) = hold else {
            // No thread held the lock, so no thread is notified.
            if let Some(keeper) = self.keeper.upgrade() {
                keeper.lost(self);
            }
            return true;
        };
        hold.notify_loss(reason);
        if let Some(keeper) = self.keeper.upgrade() {
            keeper.lost(self);
        }
        self.report_loss(reason);
        self.observer.counters.held(|| hold.held_for());
        true
    }

    /// Reports a loss that was found by the release of the last level.
    pub(in crate::local) fn report_loss(&self, reason: LostReason) {
        self.observer.emit(&LockEvent::Lost {
            lock: self.key.shared_name(),
            reason,
        });
        // Last, because on a thread of the application these call its code, which may block.
        self.observer.counters.tell_loss(reason);
        let lock = self.key.shared_name();
        tell(move || tracing::warn!(lock = &*lock, %reason, "a held lock is lost"));
    }

    pub(in crate::local) fn count_loss(&self) {
        self.observer.counters.count_loss();
    }
}
