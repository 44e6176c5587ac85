//! The loss of a grant, or of one of the holds that share it.

use std::sync::Arc;

use super::share::Share;
use super::{Grant, GrantState, Holder, Usage};
use crate::base::list::List;
use crate::error::LostReason;
use crate::observe::{HoldSpan, LockEvent, Observer};

/// The holds that were lost, and why.
pub(in crate::local) type Losses = List<(Arc<dyn Holder>, LostReason)>;

impl Share {
    /// Ends the hold as lost, under the mutex of the grant. After the end of the lease it is normal
    /// that the key is gone or has another owner, so the reason is [`LostReason::Expired`] then.
    fn end(&self, found: LostReason, observer: &Observer) -> Option<(Arc<dyn Holder>, LostReason)> {
        let hold = self.holder.as_ref()?.upgrade()?;
        let is_over = self.lease.expires().is_past();
        let reason = if is_over { LostReason::Expired } else { found };
        hold.end_as_lost(reason);
        // Counted before any thread can see the loss.
        observer.counters.count_loss();
        Some((hold, reason))
    }
}

impl GrantState {
    /// Ends the grant. `None` if it has ended, or if its last hold is being unlocked: then it is
    /// not handed over any more, and its release finds the loss.
    fn lose_all(&mut self, found: LostReason, observer: &Observer) -> Option<Losses> {
        let end = |share: &Share| share.end(found, observer);
        match std::mem::replace(&mut self.usage, Usage::Ended) {
            Usage::Ended | Usage::Free => None,
            Usage::Idle(_) => Some(Losses::new()),
            Usage::Held => Some(self.shares.iter().filter_map(end).collect()),
        }
    }

    /// Ends this one of several holds.
    fn lose_one(&mut self, hold: u64, found: LostReason, observer: &Observer) -> Option<Losses> {
        let at = self.shares.iter().position(|share| share.number == hold)?;
        let share = self.shares.remove(at);
        let losses = share.end(found, observer).into_iter().collect();
        self.lost.push(share);
        Some(losses)
    }
}

impl Grant {
    /// Ends the grant as lost, and notifies its holders, the operator, and the threads of this
    /// process that wait for the lock. Does nothing if the grant has ended. After the end of the
    /// lease the reason is always [`LostReason::Expired`].
    pub(crate) fn lose(&self, found: LostReason) {
        let lost = self.end_as_lost(found);
        self.notify(lost);
    }

    /// Ends the grant as lost. The caller [notifies](Self::notify) its holders.
    pub(in crate::local) fn end_as_lost(&self, found: LostReason) -> Option<Losses> {
        self.state.lock().lose_all(found, &self.observer)
    }

    /// Ends this hold as lost, and the grant if no other hold uses it. Another hold may have got
    /// the grant since the loss of this one was decided: then this returns false.
    pub(in crate::local) fn lose_hold(&self, number: u64, found: LostReason) -> bool {
        let mut state = self.state.lock();
        if !state.is_held_by(number) {
            return false;
        }
        let lost = if state.shares.len() > 1 {
            state.lose_one(number, found, &self.observer)
        } else {
            state.lose_all(found, &self.observer)
        };
        drop(state);
        self.notify(lost)
    }

    /// Notifies the holders, the local queue and the operator of these losses; `None` if nothing
    /// was lost.
    pub(in crate::local) fn notify(&self, lost: Option<Losses>) -> bool {
        let Some(lost) = lost else {
            return false;
        };
        self.notify_holders(&lost);
        self.report(lost);
        true
    }

    /// Notifies the holders and the local queue of these losses.
    pub(super) fn notify_holders(&self, lost: &Losses) {
        for (hold, reason) in lost {
            hold.notify_loss(*reason);
        }
        // Without a holder, no thread held the lock, so no thread is notified.
        if let Some(keeper) = self.keeper.upgrade() {
            keeper.lost(self);
        }
    }

    /// Reports these losses to the operator.
    pub(super) fn report(&self, lost: Losses) {
        for (hold, reason) in lost {
            self.report_loss(reason, hold.take_span());
            self.observer.counters.held(|| hold.held_for());
        }
    }

    /// Reports a loss to the operator, and ends the span of the hold.
    pub(in crate::local) fn report_loss(&self, reason: LostReason, span: Option<Box<HoldSpan>>) {
        self.observer.emit(&LockEvent::Lost {
            lock: self.key.shared_name(),
            reason,
        });
        // Last, because on a thread of the application these call its code, which may block.
        self.observer.counters.tell_loss(reason);
        HoldSpan::log_loss(self.key.shared_name(), reason, span);
    }

    pub(in crate::local) fn count_loss(&self) {
        self.observer.counters.count_loss();
    }
}
