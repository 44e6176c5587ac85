//! How holds begin.

use std::sync::Arc;

use super::Hold;
use crate::base::clock::Moment;
use crate::base::owner::{Liveness, ThreadId};
use crate::lease::Terms;
use crate::local::grant::Grant;

impl Hold {
    /// The first hold on a grant, for a thread with this id.
    pub(in crate::local) fn first_of(grant: &Arc<Grant>, thread: ThreadId) -> Arc<Self> {
        let who = (thread, Liveness::of_this_thread());
        let hold = grant
            .begin(|number, token| Arc::new(Self::new(grant, number, token, who, grant.since())));
        hold.take();
        hold
    }

    /// A further hold, of a thread that gets the grant without a request; `None` if the grant does
    /// not suit its terms.
    pub(in crate::local) fn next(
        grant: &Arc<Grant>,
        who: (ThreadId, Liveness),
        terms: Terms,
        now: Moment,
    ) -> Option<Arc<Self>> {
        grant.hand_over(terms, |number, token| {
            Arc::new(Self::new(grant, number, token, who, now))
        })
    }

    /// A hold beside the other holds on a shared grant; `None` if the grant does not suit its
    /// terms.
    pub(in crate::local) fn beside(
        grant: &Arc<Grant>,
        who: (ThreadId, Liveness),
        terms: Terms,
        now: Moment,
    ) -> Option<Arc<Self>> {
        grant.share(terms, now, |number| {
            Arc::new(Self::new(grant, number, None, who, now))
        })
    }
}
