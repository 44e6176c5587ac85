//! The loss of a hold.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::Receiver;

use super::{GrantPlace, Hold, HoldEnd, HoldState, Holder, ObserveLoss};
use crate::error::LostReason;
use crate::local::loss_notifier::OF_CHILD;
use crate::observe::HoldSpan;

impl Hold {
    /// Ends the grant as lost, unless this hold has ended: the grant may have another hold then.
    pub(crate) fn lose(&self, reason: LostReason) {
        let GrantPlace { grant, number, .. } = self.place();
        grant.lose_hold(number, reason);
    }

    /// Ends a hold as lost that is being released, because Redis does not have the lock any more.
    /// Returns the reason if it was not lost before; the caller [reports](Self::report_loss) it.
    pub(crate) fn lose_on_release(&self, reason: LostReason) -> Option<LostReason> {
        let grant = self.grant();
        let reason = if self.late_by().is_some() {
            LostReason::Expired
        } else {
            reason
        };
        let end = {
            let mut state = self.state.lock();
            if !matches!(state.end, Some(HoldEnd::Released | HoldEnd::Suspended(_))) {
                return None;
            }
            grant.count_loss();
            state.end.replace(HoldEnd::Lost(reason))
        };
        if let Some(HoldEnd::Suspended(suspended)) = end {
            // The thread has to unlock these levels, as after any loss.
            let place = self.place();
            place.with_lease(|lease| lease.levels = suspended.levels);
        }
        self.notify_loss(reason);
        Some(reason)
    }

    /// Reports a loss to the operator, which calls code of the application.
    pub(crate) fn report_loss(&self, reason: LostReason) {
        self.grant().report_loss(reason, self.remove_span());
    }

    /// A channel that gets one message when the hold is lost. In a forked process
    /// (`is_same_process` is false) it never gets one.
    pub(crate) fn loss_receiver(&self, is_same_process: bool) -> &Receiver<LostReason> {
        if !is_same_process {
            return &OF_CHILD;
        }
        self.loss_notifier.subscribe(|| self.loss_reason())
    }

    /// Why the hold was lost, if it was.
    pub(crate) fn loss_reason(&self) -> Option<LostReason> {
        match self.state.lock().end {
            Some(HoldEnd::Lost(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Makes this hold a part of `majority`: it ends when too few parts are left.
    pub(in crate::local) fn join(&self, majority: &Arc<dyn ObserveLoss>) {
        let join = |state: &mut HoldState| state.majority = Some(Arc::clone(majority));
        if let Some(reason) = self.unless_lost(join) {
            majority.lost(reason);
        }
    }

    /// Notifies `observer` when this hold is lost, at once if it is lost already.
    pub(in crate::local) fn observe(&self, observer: &Arc<dyn ObserveLoss>) {
        let observe = |state: &mut HoldState| {
            state.observers.retain(|old| old.strong_count() > 0);
            state.observers.push(Arc::downgrade(observer));
        };
        if let Some(reason) = self.unless_lost(observe) {
            observer.lost(reason);
        }
    }

    /// Applies `change` unless the hold is lost. Otherwise returns the reason.
    fn unless_lost(&self, change: impl FnOnce(&mut HoldState)) -> Option<LostReason> {
        let mut state = self.state.lock();
        if let Some(HoldEnd::Lost(reason)) = state.end {
            return Some(reason);
        }
        change(&mut state);
        None
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
}

impl Holder for Hold {
    fn end_as_lost(&self, reason: LostReason) {
        let mut state = self.state.lock();
        if state.end.is_none() {
            state.end = Some(HoldEnd::Lost(reason));
        }
    }

    fn notify_loss(&self, reason: LostReason) {
        let (observers, majority) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.observers), state.majority.take())
        };
        self.loss_notifier.notify(reason);
        if let Some(majority) = majority {
            majority.lost(reason);
        }
        for observer in observers.iter().filter_map(Weak::upgrade) {
            observer.lost(reason);
        }
    }

    fn held_for(&self) -> Duration {
        self.held_for()
    }

    fn take_span(&self) -> Option<Box<HoldSpan>> {
        self.remove_span()
    }
}
