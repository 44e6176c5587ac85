//! Tells Redis that a thread does not wait any more.

use super::acquisition::{Acquisition, Unit};
use crate::base::call_budget::GRACE;
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::OwnerId;
use crate::engine::held::Needed;
use crate::engine::parts::Part;
use crate::request;
use crate::script::{self, Call};

/// Names of requests that are older than this many are left out. What Redis has noted for them ends
/// by itself.
const NAMES: usize = 8;

impl Unit<'_> {
    /// Adds names by which Redis may know that this thread waits. A later request does not always
    /// replace what Redis has noted for an earlier one.
    pub(super) fn may_wait_as(&mut self, owner: &OwnerId) {
        let names = match self.waits_as.take() {
            Some(known) => owner.and(&known).newest(NAMES),
            None => owner.clone(),
        };
        self.waits_as = Some(names);
    }
}

impl Acquisition<'_> {
    /// Tells Redis that this client does not wait any more. Before the tickets are passed on, so
    /// that it cannot affect the wait of the next thread, which makes itself known again.
    ///
    /// Each server gets one request, except one that did not reply to the last, and all of them
    /// take at most [`GRACE`]. What gets no reply is repeated by the watchdog, unless a late copy
    /// could affect a later wait.
    pub(super) fn give_up(&self) {
        if !self.is_known_to_wait {
            self.leave_if_called();
            return;
        }
        let mut parts: List<&Part> = List::new();
        let mut requests = List::new();
        for unit in &self.units {
            for &part in &unit.parts {
                let core = &part.core;
                let fresh = || OwnerId::new(&core.owner_prefix);
                let owner = unit.waits_as.clone().unwrap_or_else(fresh);
                match part
                    .protocol
                    .give_up(&part.key, &owner, self.place.as_deref())
                {
                    Some(call) if unit.is_unanswered => give_up_later(part, call),
                    Some(call) => {
                        parts.push(part);
                        requests.push(request::Request::new(&core.redis, &part.key, call));
                    }
                    None => {}
                }
            }
        }
        if requests.is_empty() {
            return;
        }
        let left = self.call.budget.call_deadline().after(GRACE).left();
        let budget = self.call.budget.remaining(left.min(GRACE));
        // Unlike a request to all, one to a majority is not repeated.
        let once = Needed::Majority(requests.len());
        let results = once.request(&requests, |_| true, |_| None, &budget);
        for ((part, request), result) in parts.into_iter().zip(requests).zip(results) {
            if result.is_err() {
                give_up_later(part, request.call);
            }
        }
    }
}

impl Acquisition<'_> {
    /// After a wait whose last request has left the line: leaves it in the background if a message
    /// has arrived since. A late copy of an earlier request may have entered the line again.
    fn leave_if_called(&self) {
        let Some(place) = &self.place else { return };
        if self.call.budget.take_message() {
            for part in &self.units[0].parts {
                leave_later(part, script::leave_line(&part.key, place, true));
            }
        }
    }
}

fn give_up_later(part: &Part, call: Call) {
    if part.protocol.can_give_up_late() {
        leave_later(part, call);
    }
}

fn leave_later(part: &Part, call: Call) {
    let until = Moment::now().after(part.core.command_timeout);
    let watchdog = &part.core.watchdog;
    watchdog.release_orphan(part.key.clone(), call, until);
}
