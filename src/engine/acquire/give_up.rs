//! Tells Redis that a thread does not wait any more.

use super::acquisition::Acquisition;
use crate::base::list::List;
use crate::engine::held::Needed;
use crate::request;

impl Acquisition<'_> {
    /// Tells Redis that this client does not wait any more. Before the tickets are passed on, so
    /// that it cannot affect the wait of the next thread, which makes itself known again.
    ///
    /// Each server gets one request, except one that did not reply to the last, and all of them
    /// take at most [`GRACE`](crate::base::call_budget::GRACE). None is repeated: all waits of the client have the same place, and a
    /// late copy could end a later wait.
    pub(super) fn give_up(&self) {
        if !self.is_known_to_wait {
            self.leave_if_called();
            return;
        }
        let mut requests = List::new();
        for unit in self.units.iter().filter(|unit| !unit.is_unanswered) {
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

    /// After a wait whose last request has left the line: leaves it in the background if a message
    /// has arrived since.
    fn leave_if_called(&self) {
        let Some(place) = &self.place else { return };
        if self.call.budget.take_message() {
            for part in &self.units[0].parts {
                part.core.leave_if_called(&part.key, place);
            }
        }
    }
}
