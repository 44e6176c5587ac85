//! Evaluates the replies to one round of requests.

use std::ops::Range;
use std::time::Duration;

use super::acquisition::{Acquisition, HeldByOther, Replies};
use super::line::{LONGEST, Polls};
use super::observed::{log_that_there_are_none, log_that_there_is_no_line};
use crate::base::clock::Moment;
use crate::base::owner::OwnerId;
use crate::engine::parts::Part;
use crate::engine::undo::{
    end_of, owner_of_grant, release_orphans, undo_lost_copies, undo_unclear_grant,
};
use crate::error::{Error, Result};
use crate::local::Granted;
use crate::protocol::AcquireReply;
use crate::request::{NoReply, Reply};

/// What is left of the lease of a lock without an expiry: it can be deleted without a message.
const UNKNOWN_LEASE: Duration = Duration::from_secs(1);

impl<'a> Acquisition<'a> {
    /// Evaluates the reply to a request whose last copy was sent for `owner`.
    pub(super) fn evaluate(
        &mut self,
        at: usize,
        owner: OwnerId,
        result: Result<Reply, NoReply>,
        replies: &mut Replies<'a>,
    ) {
        let unit = &mut self.units[at];
        unit.is_unanswered = result.as_ref().is_err_and(may_arrive_later);
        let (parts, terms) = (&unit.parts, unit.terms);
        let reply = match result {
            Ok(reply) => reply,
            Err(NoReply { error, lost_copies }) => {
                undo_lost_copies(parts, &owner, terms, lost_copies);
                replies.failures.push(error);
                return;
            }
        };
        match parts[0].kind.acquired(&reply.reply) {
            Ok(AcquireReply::Held {
                at: part,
                millis,
                owner: holder,
                rank,
            }) => {
                let part = parts[part.min(parts.len() - 1)];
                let left = millis.map_or(UNKNOWN_LEASE, Duration::from_millis);
                let held = self.refused((at, part), &owner, (left, holder, rank), reply);
                replies.held.push(held);
            }
            Ok(AcquireReply::Granted(tokens)) => {
                if reply.unreplicated.is_some() {
                    parts[0].core.observer.counters.unreplicated.add(1);
                    replies.unreplicated = reply.unreplicated;
                }
                replies.is_too_late |= !self.granted_to(at, &owner, tokens, reply);
            }
            Err(error) => {
                undo_unclear_grant(parts, &owner, terms, reply.lost_copies);
                let refusal = parts[0].core.redis.refusal(&parts[0].key, error);
                replies.failures.push(refusal);
            }
        }
    }

    /// Evaluates the refusal of a request: `holder` holds this part of the unit.
    fn refused(
        &mut self,
        (at, part): (usize, &'a Part),
        owner: &OwnerId,
        (left, holder, rank): (Duration, String, Option<u32>),
        reply: Reply,
    ) -> HeldByOther<'a> {
        let unit = &mut self.units[at];
        let (first, budget) = (unit.parts[0], self.call.budget);
        undo_lost_copies(&unit.parts, owner, unit.terms, reply.lost_copies);
        if self.place.is_some() {
            self.is_known_to_wait = rank.is_some();
            if rank.is_none() && !budget.is_wait_over() {
                log_that_there_is_no_line(first);
            }
        }
        if (first.kind.has_no_owner)(&reply.reply)
            && !budget.is_wait_over()
            && !std::mem::replace(&mut self.is_logged, true)
        {
            log_that_there_are_none(first);
        }
        let is_own = self.late.as_ref().map(OwnerId::as_str) == Some(&holder);
        let is_reserved = first.kind.is_exclusive && holder.is_empty() && rank > Some(0);
        if is_reserved {
            // The client that was called may not answer.
            self.polls = Polls::default();
        }
        // Of several locks, another one may be reserved for this client for that time.
        let left = match is_reserved && unit.parts.len() == 1 {
            true => LONGEST,
            false => left,
        };
        // A client of Redisson does not call the line. So the first two clients listen to its
        // release.
        let is_foreign = !holder.is_empty() && !OwnerId::is_of_this_library(&holder);
        if is_foreign {
            self.claim.refused_by(&part.id, holder.clone());
        }
        let listens =
            is_foreign && matches!(rank, Some(0 | 1)) || (first.kind.listens)(&reply.reply);
        budget.note_holder(holder);
        HeldByOther {
            unit: at,
            part,
            left,
            rank,
            is_foreign,
            listens,
            asked: reply.asked,
            is_own,
        }
    }

    /// Notes that a unit is granted. False if its lease was over before the reply arrived.
    fn granted_to(&mut self, at: usize, owner: &OwnerId, tokens: Range<u64>, reply: Reply) -> bool {
        let unit = &mut self.units[at];
        let (parts, terms) = (&unit.parts, unit.terms);
        let grant = Granted {
            turns: (parts[0].kind.turns)(&reply.reply, self.waiting),
            owner: owner_of_grant(parts, owner, reply.lost_copies),
            asked: reply.asked,
            replied: Moment::now(),
            terms,
            tokens,
        };
        let is_late = grant.is_over(grant.replied);
        if is_late {
            // It may have expired in Redis.
            release_orphans(parts, &grant.owner, end_of(terms));
            self.late = Some(grant.owner);
        } else {
            self.is_known_to_wait &= self.place.is_none();
            unit.granted = Some(grant);
        }
        !is_late
    }
}

/// True if Redis may execute a copy of the request later.
fn may_arrive_later(none: &NoReply) -> bool {
    none.lost_copies.is_ambiguous()
        || matches!(
            none.error,
            Error::Unavailable { .. } | Error::Interrupted { .. } | Error::ShutDown { .. }
        )
}
