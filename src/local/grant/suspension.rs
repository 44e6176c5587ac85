//! A wait on a condition: the thread unlocks all levels of its hold, and later has them again, on
//! another grant. So the guards of these levels, and the receivers of a loss, stay valid.

use std::sync::{Arc, Weak};

use super::{Hold, HoldEnd, Usage};
use crate::error::LostReason;
use crate::lease::{Renewals, Terms};
use crate::local::levels::Levels;

impl Hold {
    /// The terms of a request for a grant that suits all levels of this suspended hold; `None` if
    /// it is not suspended.
    pub(crate) fn terms_to_resume(&self) -> Option<Terms> {
        let state = self.state.lock();
        let levels = &state.levels;
        matches!(state.end, Some(HoldEnd::Suspended { .. })).then(|| Terms {
            millis: levels.lease_millis(),
            renewals: match levels.are_fixed() {
                true => Renewals::None,
                // The limits of the levels count again when they are restored.
                false => Renewals::Unlimited,
            },
        })
    }

    /// Continues this suspended hold on the grant of `other`, a hold of the same thread with one
    /// level. If that grant is lost already, this hold ends as lost, and the reason is returned:
    /// the caller notifies of the loss without a mutex.
    pub(in crate::local) fn resume(self: &Arc<Self>, other: &Self) -> Option<LostReason> {
        let grant = other.grant();
        let mut of_grant = grant.state.lock();
        let (number, token, since, lease, end) = {
            let other = other.state.lock();
            let (lease, end) = (other.lease, other.end);
            (other.number, other.token, other.since, lease, end)
        };
        let kept = {
            let mut state = self.state.lock();
            let Some(HoldEnd::Suspended { kept_in_redis }) = state.end else {
                return None;
            };
            state.grant = Arc::clone(&grant);
            (state.number, state.token, state.since) = (number, token, since);
            (state.lease, state.end) = (lease, end);
            kept_in_redis
        };
        if let Usage::Held(holds) = &mut of_grant.usage {
            let is_other = |one: &&mut Weak<Self>| std::ptr::eq(one.as_ptr(), other);
            if let Some(one) = holds.iter_mut().find(is_other) {
                *one = Arc::downgrade(self);
            }
        }
        drop(of_grant);
        self.count.continue_as(&other.count);
        let span = other.remove_span();
        self.state.lock().span = span;
        if let Some(millis) = kept {
            self.keep_in_redis(millis);
        }
        self.loss_reason()
    }

    /// True if the hold counts together with those at other servers.
    pub(crate) fn is_of_majority(&self) -> bool {
        self.state.lock().majority.is_some()
    }

    /// Ends a suspended hold whose thread could not acquire the lock again: as lost, if there is a
    /// reason for that. Its levels are gone.
    pub(crate) fn abandon(&self, lost: Option<LostReason>) {
        let mut state = self.state.lock();
        if !matches!(state.end, Some(HoldEnd::Suspended { .. })) {
            return;
        }
        state.levels = Levels::default();
        state.end = Some(lost.map_or(HoldEnd::Released, HoldEnd::Lost));
        drop(state);
        if let Some(reason) = lost {
            self.notify_loss(reason);
        }
    }
}
