//! The loss of a grant, or of one of the holds that share it.

use std::fmt;
use std::sync::{Arc, Weak};

use super::{Grant, GrantState, Hold, HoldEnd, HoldState, Usage};
use crate::base::{List, Subscription};
use crate::error::LostReason;
use crate::observe::{HoldSpan, LockEvent, Observer};
use crate::protocol::Verdict;

/// The holds that were lost, and why.
pub(in crate::local) type Losses = List<(Arc<Hold>, LostReason)>;

/// Is notified of the loss of a hold.
pub(crate) trait OnLoss: fmt::Debug + Send + Sync {
    /// A hold was lost.
    fn lost(&self, reason: LostReason);
}

/// The local queue, as a grant uses it.
pub(in crate::local) trait GrantQueue: fmt::Debug + Send + Sync {
    /// Passes the ticket of a lost grant on. The holds that are lost are kept until their threads
    /// unlock them.
    fn lost(&self, grant: &Grant, lost: &Losses);

    /// Ends an idle grant, if no thread has taken it meanwhile.
    fn end_idle(&self, grant: &Grant) -> bool;

    /// Records Redis' verdict on the release of an ended grant.
    fn released(&self, grant: &Grant, verdict: Verdict);

    /// Ends a grant as lost because its client is shut down. The caller
    /// [notifies](Grant::notify_holders) its holders. `None` if it has ended.
    fn shut_down(&self, grant: &Grant) -> Option<Losses>;
}

impl GrantState {
    /// Ends the grant and its holds as lost. `None` if the grant has ended, or if its last hold is
    /// being unlocked: then the grant is not handed over any more, and its release finds the loss.
    fn lose_all(&mut self, found: LostReason, observer: &Observer) -> Option<Losses> {
        let lost = match self.usage {
            Usage::Ended | Usage::Free => None,
            Usage::Idle(_) | Usage::Held(_) => Some(self.live().collect::<List<_>>()),
        };
        self.usage = Usage::Ended;
        let lose = |hold| self.lose(hold, found, observer);
        lost.map(|holds| holds.into_iter().map(lose).collect())
    }

    /// Ends a hold as lost. After the end of the lease it is normal that the key is gone or has
    /// another owner, so the reason is [`LostReason::Expired`] then.
    fn lose(
        &mut self,
        hold: Arc<Hold>,
        found: LostReason,
        observer: &Observer,
    ) -> (Arc<Hold>, LostReason) {
        let is_over = hold.expires().is_past();
        let reason = if is_over { LostReason::Expired } else { found };
        hold.state.lock().end.get_or_insert(HoldEnd::Lost(reason));
        #[cfg(feature = "testing")]
        self.lost.push(Arc::downgrade(&hold));
        // Counted before any thread can see the loss.
        observer.counters.count_loss();
        (hold, reason)
    }
}

impl Grant {
    /// Ends the grant as lost, and notifies its holders, the operator, and the threads of this
    /// process that wait for the lock. Does nothing if the grant has ended. After the end of the
    /// lease the reason is always [`LostReason::Expired`].
    pub(crate) fn lose(&self, found: LostReason) {
        if let Some(lost) = self.end_as_lost(found) {
            self.notify(lost);
        }
    }

    /// Ends the grant as lost. The caller notifies its holders.
    pub(in crate::local) fn end_as_lost(&self, found: LostReason) -> Option<Losses> {
        self.state.lock().lose_all(found, &self.observer)
    }

    /// Notifies the holders, the local queue and the operator of these losses.
    fn notify(&self, lost: Losses) {
        self.notify_holders(&lost);
        self.report(lost);
    }

    /// Notifies the holders and the local queue of these losses.
    pub(super) fn notify_holders(&self, lost: &Losses) {
        for (hold, reason) in lost {
            hold.notify_loss(*reason);
        }
        // Without a holder, no thread held the lock, so no thread is notified.
        if let Some(queue) = self.queue.upgrade() {
            queue.lost(self, lost);
        }
    }

    /// Reports these losses to the operator.
    pub(super) fn report(&self, lost: Losses) {
        for (hold, reason) in lost {
            hold.report_loss(reason);
            hold.count_end(&self.observer.counters);
        }
    }
}

impl Hold {
    /// Ends this hold as lost, and the grant if no other hold uses it. Does nothing if this hold
    /// has ended: the grant may have another hold then.
    pub(crate) fn lose(&self, found: LostReason) {
        let grant = self.grant();
        let mut state = grant.state.lock();
        let is_this = |one: &Arc<Self>| std::ptr::eq(&raw const **one, self);
        let Some(this) = state.live().find(is_this) else {
            return;
        };
        state.leave(self, self.lease());
        if !state.is_held() {
            state.usage = Usage::Ended;
        }
        let lost = state.lose(this, found, &grant.observer);
        drop(state);
        grant.notify(List::from([lost]));
    }

    /// Ends a hold as lost that is being released, because Redis does not have the lock any more.
    /// Returns the reason if it was not lost before; the caller [reports](Self::report_loss) it.
    pub(crate) fn lose_on_release(&self, reason: LostReason) -> Option<LostReason> {
        let reason = match self.late_by() {
            Some(_) => LostReason::Expired,
            None => reason,
        };
        {
            let mut state = self.state.lock();
            if !state.is_unlocked() {
                return None;
            }
            state.grant.observer.counters.count_loss();
            // After a wait on a condition, the thread has to unlock its levels, as after any loss.
            state.end = Some(HoldEnd::Lost(reason));
        }
        self.notify_loss(reason);
        Some(reason)
    }

    /// Notifies the thread and those that observe the hold.
    pub(in crate::local) fn notify_loss(&self, reason: LostReason) {
        let (observers, majority) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.observers), state.majority.take())
        };
        self.loss_notifier.notify(reason);
        let observers = observers.iter().filter_map(Weak::upgrade);
        let all = majority.into_iter().chain(observers);
        all.for_each(|observer| observer.lost(reason));
    }

    /// Makes `observer` be notified when the hold is lost. If it is lost already, returns the
    /// reason: that loss may have been notified.
    pub(crate) fn observe(&self, observer: Weak<dyn OnLoss>) -> Option<LostReason> {
        self.unless_lost(|state| {
            state.observers.retain(|old| old.strong_count() > 0);
            state.observers.push(observer);
        })
    }

    /// Makes this hold one of a majority, which is notified when it is lost. If it is lost already,
    /// returns the reason: that loss may have been notified.
    pub(crate) fn join(&self, majority: Arc<dyn OnLoss>) -> Option<LostReason> {
        self.unless_lost(|state| state.majority = Some(majority))
    }

    fn unless_lost(&self, change: impl FnOnce(&mut HoldState)) -> Option<LostReason> {
        let mut state = self.state.lock();
        let lost = state.loss_reason();
        if lost.is_none() {
            change(&mut state);
        }
        lost
    }

    /// Ends this hold, because too few of its majority are left. Redis may still have the lock.
    pub(crate) fn lose_with_majority(&self, reason: LostReason) {
        {
            let mut state = self.state.lock();
            state.ended_with_majority |= state.end.is_none();
        }
        self.lose(reason);
    }

    /// Reports a loss to the operator, and ends the span of the hold. Calls code of the
    /// application.
    pub(crate) fn report_loss(&self, reason: LostReason) {
        let grant = self.grant();
        grant.observer.emit(&LockEvent::Lost {
            lock: self.key.shared_name(),
            reason,
        });
        // Last, because on a thread of the application these call its code, which may block.
        grant.observer.counters.tell_loss(reason);
        HoldSpan::log_loss(self.key.shared_name(), reason, self.remove_span());
    }

    /// A channel that gets one message when the hold is lost. In a forked process
    /// (`is_same_process` is false) it never gets one.
    pub(crate) fn subscribe_to_loss(&self, is_same_process: bool) -> Subscription<LostReason> {
        if !is_same_process {
            // The mutex of the state may stay locked.
            return crossbeam_channel::never().into();
        }
        self.loss_notifier.subscribe(|| self.loss_reason())
    }

    /// Why the hold was lost, if it was.
    pub(crate) fn loss_reason(&self) -> Option<LostReason> {
        self.state.lock().loss_reason()
    }

    /// True if the hold ended with its majority. Redis may still have the lock.
    pub(crate) fn has_ended_with_majority(&self) -> bool {
        self.state.lock().ended_with_majority
    }
}
