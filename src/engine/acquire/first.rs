//! The first request for a lock of one part. Redis nearly always grants it, so nothing is prepared
//! for a wait or for further parts.

use crate::base::clock::Moment;
use crate::base::owner::OwnerId;
use crate::engine::held::Needed;
use crate::engine::parts::{LockCall, Missing};
use crate::engine::undo::owner_of_next_copy;
use crate::local::{Claim, Granted};
use crate::protocol::{AcquireReply, Wish};
use crate::request::{NoReply, Reply, Request, request_one};

/// The first request and its reply.
pub(super) struct First {
    /// The owner id of the last copy.
    pub(super) owner: OwnerId,
    /// There was another copy before.
    is_repeated: bool,
    /// The thread waits if the lock is held.
    pub(super) waits: bool,
    pub(super) result: Result<Reply, NoReply>,
}

impl First {
    /// Sends the request. `None` if several parts are missing, if the thread has to leave the lock
    /// to others first, or if it has to listen before its request.
    pub(super) fn request(
        call: LockCall<'_>,
        missing: &[Missing<'_>],
        claim: &Claim,
    ) -> Option<Self> {
        let (&[(part, terms)], budget) = (missing, call.budget) else {
            return None;
        };
        let has_line = part.kind.has_line;
        let is_live = || !has_line && part.core.subscriber.is_live(&part.key);
        if call.parts.needed != Needed::All || !claim.is_alone || is_live() {
            return None;
        }
        let waits = !budget.is_wait_over();
        let wish = Wish {
            holds: part.holds_of_a_grant(terms, 1),
            waits,
            place: (waits && has_line).then(|| part.core.place(&part.key)),
            within: None,
        };
        let (mut owner, mut is_repeated) = (part.new_owner(), false);
        let kind = part.kind;
        let acquire = |owner: &OwnerId| kind.acquire(&[&part.key], owner, terms.millis, &wish);
        let request = Request::new(&part.core.redis, &part.key, acquire(&owner));
        let next_call = |_| {
            (owner, is_repeated) = (owner_of_next_copy(&owner), true);
            Some(acquire(&owner))
        };
        budget.set_unanswered_since(Some(budget.started()));
        let result = request_one(&request, next_call, budget.reply_deadline(), budget);
        Some(Self {
            owner,
            is_repeated,
            waits: wish.waits,
            result,
        })
    }

    /// What Redis granted to the only copy, if the lease is not over.
    pub(super) fn granted(&self, &(part, terms): &Missing<'_>) -> Option<Granted> {
        let reply = self.result.as_ref().ok()?;
        if self.is_repeated || reply.lost_copies.is_ambiguous() || reply.unreplicated.is_some() {
            return None;
        }
        let Ok(AcquireReply::Granted(tokens)) = AcquireReply::of(&reply.reply) else {
            return None;
        };
        let granted = Granted {
            turns: (part.kind.turns)(&reply.reply, None),
            owner: self.owner.clone(),
            asked: reply.asked,
            replied: Moment::now(),
            terms,
            tokens,
        };
        (!granted.is_over(granted.replied)).then_some(granted)
    }
}
