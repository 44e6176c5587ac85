//! One round of requests for the missing parts of a lock: sent to all servers at once.

use super::acquisition::{Acquisition, Replies};
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::OwnerId;
use crate::engine::held::Needed;
use crate::engine::undo::owner_of_next_copy;
use crate::error::Result;
use crate::protocol::Wish;
use crate::request::{self, NoReply, Prepared, Reply, request_batch};

impl<'a> Acquisition<'a> {
    /// Requests the units that are not granted yet. If some did not reply before, these alone.
    pub(super) fn request(&mut self) -> Replies<'a> {
        let mut requested = std::mem::take(&mut self.silent);
        if requested.is_empty() {
            let missing = |&at: &usize| self.units[at].granted.is_none();
            requested = (0..self.units.len()).filter(missing).collect();
        }
        let owner = |&at: &usize| self.units[at].parts[0].new_owner();
        let (owners, prepared) = self.prepared.take().unzip();
        let mut owners: List<OwnerId> = match owners {
            Some(prepared) => List::from([prepared]),
            None => requested.iter().map(owner).collect(),
        };
        if self.place.is_some() {
            // This request answers the calls so far.
            self.call.budget.take_message();
        }
        let results = self.send(&requested, &mut owners, prepared.as_deref());
        if prepared.is_some_and(|prepared| prepared.is_outdated()) {
            // The wake-up of that message has been taken. If the lock is refused, another request
            // follows at once.
            self.call.budget.unparker().unpark();
        }
        let mut replies = Replies::default();
        for ((at, owner), result) in requested.into_iter().zip(owners).zip(results) {
            self.evaluate(at, owner, result, &mut replies);
        }
        self.count_hold(&replies);
        replies
    }

    /// Sends the requests for these units. Replaces the owner id of each by that of the last copy
    /// that was sent.
    fn send(
        &mut self,
        requested: &[usize],
        owners: &mut [OwnerId],
        prepared: Option<&Prepared>,
    ) -> List<Result<Reply, NoReply>> {
        let wish = self.wish(!self.call.budget.is_wait_over());
        self.is_known_to_wait |= wish.waits;
        let (units, budget) = (&self.units, self.call.budget);
        let request = |(&at, owner): (&usize, &OwnerId)| {
            let unit = &units[at];
            let first = unit.parts[0];
            let call = match prepared {
                Some(prepared) => prepared.call().clone(),
                None => unit.call(owner, &wish),
            };
            request::Request {
                others: unit.parts[1..].iter().map(|part| &part.key).collect(),
                prepared,
                ..request::Request::new(&first.core.redis, &first.key, call)
            }
        };
        let requests: List<request::Request<'_>> =
            requested.iter().zip(&*owners).map(request).collect();
        let next_call = |index: usize| {
            owners[index] = owner_of_next_copy(&owners[index]);
            Some(units[requested[index]].call(&owners[index], &wish))
        };
        let first = units[0].parts[0];
        match self.call.parts.needed {
            // A server that does not reply must not keep the locks of the others from other
            // clients.
            Needed::All if units.len() > 1 => {
                let briefly = Moment::now().after(first.core.command_timeout);
                let deadline = briefly.min(budget.reply_deadline());
                request_batch(&requests, next_call, deadline, budget)
            }
            needed => needed.request(&requests, first.kind.grants, next_call, budget),
        }
    }

    /// What the next request is for. The thread `waits` if the lock is held.
    pub(super) fn wish(&self, waits: bool) -> Wish {
        let first = &self.units[0];
        Wish {
            holds: first.parts[0].holds_of_a_grant(first.terms, self.expected_holds),
            waits: waits || self.leaves_reserved,
            place: self
                .place
                .clone()
                .filter(|_| waits || self.is_known_to_wait),
            within: self.within.map(|hold| hold.grant().owner().clone()),
        }
    }
}
