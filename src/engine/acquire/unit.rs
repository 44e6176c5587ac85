//! The parts of a lock that share one request; the first request for one part; what undoes a
//! request.

use std::ops::Range;
use std::time::Duration;

use redis::Value;

use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::OwnerId;
use crate::engine::group::{GrantRequest, group};
use crate::engine::held::Needed;
use crate::engine::parts::{LockCall, Missing, Part};
use crate::lease::Terms;
use crate::local::Granted;
use crate::protocol::{AcquireReply, Wish};
use crate::request::{LostCopies, NoReply, Prepared, Reply, Request, request_one};
use crate::script::Call;

/// A request looks for a grant to at most this many earlier copies without a reply. A lock that an
/// even older copy acquired ends with its lease.
const MAX_OLDER_IDS: usize = 7;

/// The owner id for another copy of a request. Each copy has its own: otherwise a late copy could
/// acquire the lock again after the grant was lost, with the owner id of that grant.
pub(super) fn owner_of_next_copy(owner: &OwnerId) -> OwnerId {
    owner.newest(MAX_OLDER_IDS).with_fresh_name()
}

/// The parts that share one request, which grants all of them or none.
pub(super) struct Unit<'a> {
    pub(super) parts: List<&'a Part>,
    pub(super) terms: Terms,
    pub(super) granted: Option<Granted>,
    /// The last request had no reply.
    pub(super) is_unanswered: bool,
}

/// The first request for a lock of one part, and its reply, unless it is granted.
pub(super) struct First {
    /// The owner id of the last copy.
    pub(super) owner: OwnerId,
    /// The thread waits if the lock is held.
    pub(super) waits: bool,
    pub(super) result: Result<Reply, NoReply>,
}

impl<'a> Unit<'a> {
    /// The units of the missing parts.
    pub(super) fn of_parts(call: LockCall<'a>, missing: &[Missing<'a>]) -> List<Self> {
        let unit = |parts: List<&'a Part>, terms: Terms| Self {
            parts,
            terms,
            granted: None,
            is_unanswered: false,
        };
        if let &[(part, terms)] = missing {
            return List::from_buf([unit(List::from_buf([part]), terms)]);
        }
        let places = missing.iter().map(|(part, _)| (&part.core, &part.key));
        let is_joinable = call.parts.needed == Needed::All && missing[0].0.kind.is_joinable;
        let groups = group(places, |_, _| is_joinable);
        let members = |members: List<usize>| {
            let parts = members.iter().map(|&at| missing[at].0);
            unit(parts.collect(), missing[members[0]].1)
        };
        groups.into_iter().map(members).collect()
    }

    /// Sends the first request for a lock of one part. Redis nearly always grants it, so nothing is
    /// prepared for a wait or for further parts. `None` if it is granted.
    pub(super) fn request_first(&mut self, budget: &CallBudget) -> Option<First> {
        let Part {
            core, key, kind, ..
        } = self.parts[0];
        let waits = !budget.is_wait_over();
        let wish = Wish {
            holds: self.parts[0].holds_of_a_grant(self.terms, 1),
            waits,
            place: (waits && kind.has_line).then(|| core.subscriber.in_line(key, &core.place(key))),
            within: None,
        };
        let (mut owner, mut is_repeated) = (self.parts[0].new_owner(), false);
        let call = |owner: &OwnerId| kind.acquire(&[key], owner, self.terms.millis, &wish);
        let request = Request::new(&core.redis, key, call(&owner));
        let next_call = |_| {
            (owner, is_repeated) = (owner_of_next_copy(&owner), true);
            Some(call(&owner))
        };
        budget.set_unanswered_since(Some(budget.started()));
        let result = request_one(&request, next_call, budget.reply_deadline(), budget);
        if let Ok(reply) = &result
            && !is_repeated
            && !reply.lost_copies.is_ambiguous()
            && reply.unreplicated.is_none()
            && let Ok(AcquireReply::Granted(tokens)) = AcquireReply::of(&reply.reply)
        {
            let grant = self.grant(owner, tokens, (&reply.reply, reply.asked), None);
            if !grant.is_over(grant.replied) {
                self.granted = Some(grant);
                return None;
            }
            owner = grant.owner;
        }
        Some(First {
            owner,
            waits,
            result,
        })
    }

    /// What Redis granted by this reply to a request that was sent after a moment. `waiting`
    /// threads waited here when the lock was refused for the first time.
    pub(super) fn grant(
        &self,
        owner: OwnerId,
        tokens: Range<u64>,
        (reply, asked): (&Value, Moment),
        waiting: Option<usize>,
    ) -> Granted {
        Granted {
            turns: (self.parts[0].kind.turns)(reply, waiting),
            owner,
            asked,
            replied: Moment::now(),
            terms: self.terms,
            tokens,
        }
    }

    /// The call that acquires the unit for `owner`.
    pub(super) fn call(&self, owner: &OwnerId, wish: &Wish) -> Call {
        let keys: List<_> = self.parts.iter().map(|part| &part.key).collect();
        let kind = self.parts[0].kind;
        kind.acquire(&keys, owner, self.terms.millis, wish)
    }

    /// The request that acquires the unit for `owner`. It may be prepared.
    pub(super) fn request<'r>(
        &self,
        owner: &OwnerId,
        wish: &Wish,
        prepared: Option<&'r Prepared>,
    ) -> Request<'r>
    where
        'a: 'r,
    {
        let call = prepared.map(|prepared| prepared.call().clone());
        let call = call.unwrap_or_else(|| self.call(owner, wish));
        let Part { core, key, .. } = self.parts[0];
        Request {
            others: self.parts[1..].iter().map(|part| &part.key).collect(),
            prepared,
            ..Request::new(&core.redis, key, call)
        }
    }

    /// When the lease of a request is over that may be executed now.
    pub(super) fn end(&self) -> Moment {
        Moment::now().after(Duration::from_millis(self.terms.millis))
    }

    /// The requests that release what `owner` has.
    pub(super) fn releases(&self, owner: &OwnerId) -> List<GrantRequest<'a>> {
        let release = |&part: &&'a Part| GrantRequest {
            core: &part.core,
            key: &part.key,
            call: part.kind.release(&part.key, owner),
        };
        self.parts.iter().map(release).collect()
    }

    /// Sends a release after each of these lost copies.
    pub(super) fn compensate(&self, owner: &OwnerId, lost_copies: &LostCopies) {
        if lost_copies.is_ambiguous() {
            let releases = self.releases(owner);
            for some in releases.chunks(releases[0].call.most_joined()) {
                let calls = some.iter().map(|release| release.call.clone());
                if let Some(call) = Call::joined(calls) {
                    lost_copies.compensate(&call);
                }
            }
        }
    }

    /// Releases in the background what `owner` may have.
    pub(super) fn release_later(&self, owner: &OwnerId) {
        let end = self.end();
        let releases = self.releases(owner).into_iter();
        releases.for_each(|release| _ = release.later(end));
    }

    /// Undoes the lost copies of a request that was refused or had no reply, so that none of them
    /// leaves a lock without a holder.
    pub(super) fn undo_lost_copies(&self, owner: &OwnerId, lost_copies: LostCopies) {
        if lost_copies.is_ambiguous() {
            self.undo(owner, lost_copies);
        }
    }

    /// Undoes a request whose reply is not the expected one. Redis may have granted the locks.
    pub(super) fn undo(&self, owner: &OwnerId, lost_copies: LostCopies) {
        self.compensate(owner, &lost_copies);
        self.release_later(owner);
    }
}
