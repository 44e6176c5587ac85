//! The loss of a grant, or of one of the holds that share it.

use std::sync::{Arc, Weak};

use super::sharing::Sharer;
use super::{Grant, GrantState, Holder, Usage};
use crate::base::list::List;
use crate::error::LostReason;
use crate::local::lease_state::LeaseState;
use crate::observe::{HoldSpan, LockEvent, Observer};

/// The holds that were lost, and why.
pub(in crate::local) type Losses = List<(Arc<dyn Holder>, LostReason)>;

/// After the end of the lease it is normal that the key is gone or has another owner.
fn reason_of(lease: &LeaseState, found: LostReason) -> LostReason {
    if lease.expires().is_past() {
        LostReason::Expired
    } else {
        found
    }
}

impl GrantState {
    /// Ends the grant. `None` if it has ended, or if its last hold is being unlocked: its release
    /// finds the loss.
    fn lose_all(&mut self, found: LostReason, observer: &Observer) -> Option<Losses> {
        match self.usage {
            Usage::Ended => return None,
            // It is not handed over any more, and its release finds the loss.
            Usage::Free => {
                self.usage = Usage::Ended;
                return None;
            }
            Usage::Held(..) | Usage::Idle(_) => {}
        }
        let mut lost = Losses::new();
        if let Usage::Held(_, hold) = std::mem::replace(&mut self.usage, Usage::Ended) {
            end(&hold, reason_of(&self.lease, found), observer, &mut lost);
        }
        for one in &mut self.sharers {
            if let Some(hold) = one.holder.take() {
                end(&hold, reason_of(&one.lease, found), observer, &mut lost);
            }
        }
        Some(lost)
    }

    /// Ends one of several live holds.
    fn lose_one(&mut self, number: u64, found: LostReason, observer: &Observer) -> Losses {
        let mut lost = Losses::new();
        if self.number == number
            && let Some((Usage::Held(number, hold), lease)) = self.replace_first()
        {
            end(&hold, reason_of(&lease, found), observer, &mut lost);
            let holder = None;
            self.sharers.push(Sharer {
                number,
                holder,
                lease,
            });
        } else if let Some(one) = self.sharers.iter_mut().find(|one| one.number == number)
            && let Some(hold) = one.holder.take()
        {
            end(&hold, reason_of(&one.lease, found), observer, &mut lost);
        }
        lost
    }
}

/// Ends a hold as lost, under the mutex of the grant.
fn end(hold: &Weak<dyn Holder>, reason: LostReason, observer: &Observer, lost: &mut Losses) {
    if let Some(hold) = hold.upgrade() {
        hold.end_as_lost(reason);
        // Counted before any thread can see the loss.
        observer.counters.count_loss();
        lost.push((hold, reason));
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
        let lost = {
            let mut state = self.state.lock();
            if !state.is_held_by(number) {
                return false;
            }
            if state.is_shared() {
                Some(state.lose_one(number, found, &self.observer))
            } else {
                state.lose_all(found, &self.observer)
            }
        };
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
