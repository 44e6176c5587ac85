//! The loss of a hold, and the notifications about it.

use std::sync::{Arc, Weak};

use crossbeam_channel::Receiver;

use super::{Hold, HoldEnd};
use crate::error::LostReason;
use crate::local::quorum::Quorum;
use crate::observe::{LockEvent, tell};

impl Hold {
    /// Ends the hold as lost, and notifies its holder, the operator, and the threads of this
    /// process that wait for the lock. Does nothing if the hold has ended. After the end of the
    /// lease the reason is always [`LostReason::Expired`].
    pub(crate) fn lose(&self, reason: LostReason) {
        self.lose_from(None, reason);
    }

    /// Ends a hold as lost that is being released, because Redis does not have the lock any more.
    /// Notifies as [`lose`](Self::lose) does.
    pub(crate) fn lose_on_release(&self, reason: LostReason) {
        self.lose_from(Some(HoldEnd::Released), reason);
    }

    fn lose_from(&self, before: Option<HoldEnd>, found: LostReason) {
        let (reason, observers, majority) = {
            let mut state = self.state.lock();
            if state.end != before {
                return;
            }
            // After the end of the lease it is normal that the key is gone or has another owner.
            let reason = if state.lease.expires().is_past() {
                LostReason::Expired
            } else {
                found
            };
            state.end = Some(HoldEnd::Lost(reason));
            // Counted before any thread can see the loss.
            self.observer.counters.count_loss();
            let observers = std::mem::take(&mut state.observers);
            (reason, observers, state.majority.take())
        };
        self.loss_notifier.notify(reason);
        if let Some(majority) = majority {
            majority.lost(reason);
        }
        for observer in observers.iter().filter_map(Weak::upgrade) {
            observer.lost(reason);
        }
        if let Some(queue) = self.queue.upgrade() {
            queue.lost(self);
        }
        self.observer.emit(&LockEvent::Lost {
            lock: self.key.shared_name(),
            reason,
        });
        // Last, because on a thread of the application these call its code, which may block.
        self.observer.counters.tell_loss(reason);
        if before.is_none() {
            self.observer.counters.held(self.held_for());
        }
        let lock = self.key.shared_name();
        tell(move || tracing::warn!(lock = &*lock, %reason, "a held lock is lost"));
    }

    /// A channel that gets one message when the hold is lost.
    pub(crate) fn loss_receiver(&self) -> &Receiver<LostReason> {
        self.loss_notifier.subscribe(|| {
            if !self.process.is_current() {
                return None;
            }
            match self.state.lock().end {
                Some(HoldEnd::Lost(reason)) => Some(reason),
                _ => None,
            }
        })
    }

    /// Makes this hold a part of `majority`: it ends when too few parts are left.
    pub(in crate::local) fn join(&self, majority: &Arc<Quorum>) {
        let mut state = self.state.lock();
        if let Some(HoldEnd::Lost(reason)) = state.end {
            drop(state);
            majority.lost(reason);
            return;
        }
        state.majority = Some(Arc::clone(majority));
    }

    /// Ends the hold because too few parts of its majority are left.
    pub(in crate::local) fn end_with_majority(&self, reason: LostReason) {
        {
            let mut state = self.state.lock();
            state.ended_with_majority |= state.end.is_none();
        }
        self.lose(reason);
    }

    /// True if the hold ended with its majority. Redis may still have the lock.
    pub(crate) fn has_ended_with_majority(&self) -> bool {
        self.state.lock().ended_with_majority
    }

    /// Notifies `quorum` when this hold is lost, at once if it is lost already.
    pub(in crate::local) fn observe(&self, quorum: &Arc<Quorum>) {
        if !self.process.is_current() {
            return;
        }
        let mut state = self.state.lock();
        if let Some(HoldEnd::Lost(reason)) = state.end {
            drop(state);
            quorum.lost(reason);
            return;
        }
        state
            .observers
            .retain(|observer| observer.strong_count() > 0);
        state.observers.push(Arc::downgrade(quorum));
    }
}
