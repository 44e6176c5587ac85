//! What a call does once its wait has lasted for some time.

use std::fmt;
use std::time::Duration;

use super::CallBudget;
use crate::base::Moment;

/// An action of the waiting thread, which is due at a moment.
pub(super) struct GiveWay {
    set: Moment,
    due: Moment,
    action: Box<dyn FnOnce()>,
}

impl fmt::Debug for GiveWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GiveWay").field(&self.due).finish()
    }
}

impl CallBudget<'_> {
    /// Makes the thread run `action` when it waits at this moment or later, once, without a locked
    /// mutex.
    pub(crate) fn give_way_at(&self, due: Moment, action: impl FnOnce() + 'static) {
        let set = Moment::now();
        let action = Box::new(action);
        *self.give_way.borrow_mut() = Some(GiveWay { set, due, action });
    }

    /// Forgets the action.
    pub(crate) fn give_no_way(&self) {
        drop(self.give_way.take());
    }

    pub(super) fn has_to_give_way(&self) -> bool {
        self.give_way.borrow().is_some()
    }

    /// Runs the action if it is due. Returns for how long the thread may sleep before that.
    pub(super) fn give_way_if_due(&self) -> Duration {
        let left = match &*self.give_way.borrow() {
            None => return Duration::MAX,
            Some(one) => self.minus_skipped(one.due, one.set).left(),
        };
        if !left.is_zero() {
            return left;
        }
        if let Some(one) = self.give_way.take() {
            (one.action)();
        }
        Duration::MAX
    }
}
