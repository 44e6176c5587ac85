//! How a hold is lost, and who is told.

use std::sync::{Arc, Weak};

use crossbeam_channel::Receiver;

use super::{Hold, HoldEnd};
use crate::error::LostReason;
use crate::local::quorum::Quorum;
use crate::observe::{LockEvent, tell};

impl Hold {
    /// Ends a hold that stands as lost, and tells everybody: the holder, the operator, and the
    /// threads at home that wait for it. After the end of its lease it is lost by that, whatever
    /// `reason` was found.
    pub(crate) fn lose(&self, reason: LostReason) {
        self.lose_from(None, reason);
    }

    /// As [`lose`](Self::lose), where it is the release that finds the lock gone.
    pub(crate) fn lose_on_release(&self, reason: LostReason) {
        self.lose_from(Some(HoldEnd::Released), reason);
    }

    fn lose_from(&self, before: Option<HoldEnd>, found: LostReason) {
        let (reason, quorums, bond) = {
            let mut state = self.state.lock();
            if state.end != before {
                return;
            }
            // After the lease, that the key is gone or another's is no more than what was to be expected.
            let reason = if state.lease.expires().is_past() {
                LostReason::Expired
            } else {
                found
            };
            state.end = Some(HoldEnd::Lost(reason));
            // Counted before anybody can see it.
            self.observer.counters.count_loss();
            let quorums = std::mem::take(&mut state.quorums);
            (reason, quorums, state.bond.take())
        };
        self.loss_notifier.ring(reason);
        if let Some(bond) = bond {
            bond.lost(reason);
        }
        for quorum in quorums.iter().filter_map(Weak::upgrade) {
            quorum.lost(reason);
        }
        if let Some(queue) = self.queue.upgrade() {
            queue.lost(self);
        }
        self.observer.emit(&LockEvent::Lost {
            lock: self.key.shared_name(),
            reason,
        });
        // Last of all: on a thread of the application these call its code, which may block.
        self.observer.counters.tell_loss(reason);
        if before.is_none() {
            self.observer.counters.held(self.held_for());
        }
        let lock = self.key.shared_name();
        tell(move || tracing::warn!(lock = &*lock, %reason, "a held lock is lost"));
    }

    /// Where the loss is told.
    pub(crate) fn loss_notifier(&self) -> &Receiver<LostReason> {
        self.loss_notifier.listen(|| {
            if !self.process.is_current() {
                return None;
            }
            match self.state.lock().end {
                Some(HoldEnd::Lost(reason)) => Some(reason),
                _ => None,
            }
        })
    }

    /// Has it end when `quorum` does.
    pub(in crate::local) fn bind(&self, quorum: &Arc<Quorum>) {
        let mut state = self.state.lock();
        if let Some(HoldEnd::Lost(reason)) = state.end {
            drop(state);
            quorum.lost(reason);
            return;
        }
        state.bond = Some(Arc::clone(quorum));
    }

    /// Ends it, because too few of those that it is bound to stand.
    pub(in crate::local) fn forsake(&self, reason: LostReason) {
        {
            let mut state = self.state.lock();
            state.forsaken |= state.end.is_none();
        }
        self.lose(reason);
    }

    /// Whether it was lost here while it may have stood in Redis.
    pub(crate) fn is_forsaken(&self) -> bool {
        self.state.lock().forsaken
    }

    /// Has `quorum` told of the loss of this hold, at once if it is lost already.
    pub(in crate::local) fn tell(&self, quorum: &Arc<Quorum>) {
        if !self.process.is_current() {
            return;
        }
        let mut state = self.state.lock();
        if let Some(HoldEnd::Lost(reason)) = state.end {
            drop(state);
            quorum.lost(reason);
            return;
        }
        state.quorums.retain(|told| told.strong_count() > 0);
        state.quorums.push(Arc::downgrade(quorum));
    }
}
