//! One round of requests for the missing parts of a lock: sent to all servers at once. Before it, a
//! client that has released the lock leaves it to other clients.

use super::acquisition::{Acquisition, Replies};
use super::first::First;
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::OwnerId;
use crate::engine::held::Needed;
use crate::engine::local_wait::no_reply;
use crate::engine::undo::owner_of_next_copy;
use crate::error::Result;
use crate::protocol::Wish;
use crate::request::{NoReply, Prepared, Reply, Request, request_batch};
use crate::script::granted;

impl<'a> Acquisition<'a> {
    /// Requests the units that are not granted yet. If some of all did not reply to the last
    /// round, these alone: meanwhile the locks of the others are free.
    pub(super) fn request(&mut self) -> Replies<'a> {
        let units = || self.units.iter().enumerate();
        let unanswered = units().filter(|(_, unit)| unit.is_unanswered);
        let mut requested: List<usize> = unanswered.map(|(at, _)| at).collect();
        if requested.is_empty() || self.call.parts.needed != Needed::All {
            let missing = units().filter(|(_, unit)| unit.granted.is_none());
            requested = missing.map(|(at, _)| at).collect();
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

    /// Evaluates the first request for a lock of one part.
    pub(super) fn replies_to(&mut self, first: First) -> Replies<'a> {
        self.is_known_to_wait |= first.waits;
        let mut replies = Replies::default();
        self.evaluate(0, first.owner, first.result, &mut replies);
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
            Request {
                others: unit.parts[1..].iter().map(|part| &part.key).collect(),
                prepared,
                ..Request::new(&first.core.redis, &first.key, call)
            }
        };
        let requests: List<Request<'_>> = requested.iter().zip(&*owners).map(request).collect();
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
            needed => {
                let is_good = |reply: &_| granted(reply).is_some();
                needed.request(&requests, is_good, next_call, budget)
            }
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

    /// Begins a round of requests. Returns when the replies must have arrived. Fails if there was
    /// no reply for too long.
    pub(super) fn begin_round(&mut self) -> Result<Moment> {
        let (since, expected_holds) = self.claim.begin_request();
        self.expected_holds = expected_holds;
        self.call.budget.set_unanswered_since(Some(since));
        let deadline = self.call.budget.reply_deadline();
        match deadline.is_past() {
            true => Err(no_reply(self.call, self.claim.locks())),
            false => Ok(deadline),
        }
    }

    /// If this client has released the lock while other clients listened: waits until they have had
    /// it, or could have acquired it.
    pub(super) fn leave_to_others(&mut self) {
        let budget = self.call.budget;
        if budget.is_wait_over() {
            return;
        }
        let pause = self.claim.take_pause();
        self.pause = pause.filter(|pause| pause.is_in_line || !pause.until.is_past());
        if let Some(pause) = &mut self.pause {
            // The rest of a limited wait is for requests.
            let most = (budget.wait_left() / 2).div_duration_f32(pause.length);
            pause.holds = pause.holds.min(most as u32).max(1);
        }
        let Some(pause) = self.pause.filter(|pause| !pause.is_in_line) else {
            return;
        };
        let wait_until = Moment::now().after(budget.wait_left());
        self.wait.sleep_deaf(pause.deaf_until.min(wait_until));
        budget.take_wake_up();
        self.let_others_pass(pause.until);
    }

    /// Waits until the other clients have had the lock as often as the pause says. The next of them
    /// has until `until` to acquire and release it.
    pub(super) fn let_others_pass(&mut self, mut until: Moment) {
        let Some(pause) = &mut self.pause else { return };
        while pause.holds > 0 && self.call.budget.wait(until.left()) {
            pause.pass();
            until = Moment::now().after(pause.length);
        }
    }

    /// After a round: counts a hold of another client for the pause.
    pub(super) fn count_hold(&mut self, replies: &Replies<'_>) {
        let (Some(mut pause), Some(held)) = (self.pause, replies.held.last()) else {
            return;
        };
        if held.is_foreign || !pause.is_in_line {
            pause.pass();
        }
        let rank = held.rank.unwrap_or_default();
        self.pause = pause.enter_line(rank, fastrand::f32());
    }
}
