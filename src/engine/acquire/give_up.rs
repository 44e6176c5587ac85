//! Tells Redis that a thread does not wait any more.

use super::acquisition::{Acquisition, Unit};
use crate::base::list::List;
use crate::engine::held::Needed;
use crate::request;

impl Acquisition<'_> {
    /// Tells Redis that this client does not wait any more. Before the tickets are passed on, so
    /// that it cannot affect the wait of the next thread, which makes itself known again.
    ///
    /// Each server gets one request, and all of them take at most
    /// [`GRACE`](crate::base::call_budget::GRACE). None is repeated: all waits of the client have the
    /// same place, and a late copy could end a later wait. A server that did not reply to the last
    /// request gets one in the background.
    pub(super) fn give_up(&self) {
        if !self.is_known_to_wait {
            // Its last request has left the line.
            if self.call.budget.take_message() {
                self.leave_if_called(&self.units[0]);
            }
            return;
        }
        let mut requests = List::new();
        for unit in &self.units {
            if unit.is_unanswered {
                self.leave_if_called(unit);
                continue;
            }
            for part in &unit.parts {
                let core = &part.core;
                let place = self.place.as_deref();
                let call = (part.kind.give_up)(&part.key, &core.owner_prefix, place);
                let request = |call| request::Request::new(&core.redis, &part.key, call);
                requests.extend(call.map(request));
            }
        }
        if requests.is_empty() {
            return;
        }
        let budget = self.call.budget.to_give_up();
        // Unlike a request to all, one to a majority is not repeated.
        let once = Needed::Majority(requests.len());
        once.request(&requests, |_| true, |_| None, &budget);
    }

    /// Leaves the line in the background, if this client was called and has not answered.
    fn leave_if_called(&self, unit: &Unit<'_>) {
        if let Some(place) = &self.place {
            for part in &unit.parts {
                part.core.leave_if_called(&part.key, place);
            }
        }
    }
}
