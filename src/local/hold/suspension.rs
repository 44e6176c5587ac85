//! A wait on a condition: the thread unlocks all levels of its hold, and later has them again, on
//! another grant. So the guards of these levels, and the receivers of a loss, stay valid.

use std::sync::{Arc, Weak};

use super::{GrantPlace, Hold, HoldEnd, Holder, Popped};
use crate::error::LostReason;
use crate::lease::{Renewals, Terms};
use crate::local::levels::Levels;

/// What a suspended hold has when it continues.
#[derive(Debug)]
pub(super) struct Suspended {
    pub(super) levels: Levels,
    /// For how long the release of the last level leaves the lock in Redis, in milliseconds.
    kept_in_redis: Option<u64>,
}

impl Hold {
    /// Removes all levels, and keeps them for [`resume`](Self::resume). A lost hold keeps its
    /// levels.
    pub(super) fn suspend(&self) -> Popped {
        let GrantPlace { grant, number, .. } = self.place();
        let suspended = grant.suspend(number);
        let mut state = self.state.lock();
        match (&state.end, suspended) {
            (None, Some((levels, kept))) => {
                state.end = Some(HoldEnd::Suspended(Box::new(Suspended {
                    levels,
                    kept_in_redis: kept.map(|(millis, _)| millis),
                })));
                Popped::Last
            }
            (&Some(HoldEnd::Lost(reason)), _) => Popped::Lost {
                reason,
                last: false,
            },
            _ => Popped::Nothing,
        }
    }

    /// The terms of a request for a grant that suits all levels of this suspended hold; `None` if
    /// it is not suspended.
    pub(crate) fn terms_to_resume(&self) -> Option<Terms> {
        let state = self.state.lock();
        let Some(HoldEnd::Suspended(suspended)) = &state.end else {
            return None;
        };
        let levels = &suspended.levels;
        Some(Terms {
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
        let place = other.place();
        let is_suspended = |end: &mut HoldEnd| matches!(end, HoldEnd::Suspended(_));
        let suspended = {
            let mut state = self.state.lock();
            let Some(HoldEnd::Suspended(suspended)) = state.end.take_if(is_suspended) else {
                return None;
            };
            state.place = place.clone();
            suspended
        };
        let span = other.remove_span();
        self.state.lock().span = span;
        let GrantPlace { grant, number, .. } = place;
        if let Some(millis) = suspended.kept_in_redis {
            grant.keep_in_redis(number, millis);
        }
        let holder: Weak<Self> = Arc::downgrade(self);
        if grant.resume(number, holder, suspended.levels) {
            return None;
        }
        let reason = other.loss_reason()?;
        self.end_as_lost(reason);
        Some(reason)
    }

    /// True if the hold counts together with those at other servers.
    pub(crate) fn is_of_majority(&self) -> bool {
        self.state.lock().majority.is_some()
    }

    /// Ends a suspended hold whose thread could not acquire the lock again: as lost, if there is a
    /// reason for that. Its levels are gone.
    pub(crate) fn abandon(&self, lost: Option<LostReason>) {
        let mut state = self.state.lock();
        if !matches!(state.end, Some(HoldEnd::Suspended(_))) {
            return;
        }
        state.end = Some(lost.map_or(HoldEnd::Released, HoldEnd::Lost));
        drop(state);
        if let Some(reason) = lost {
            self.notify_loss(reason);
        }
    }
}
