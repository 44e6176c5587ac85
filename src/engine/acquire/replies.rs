//! Evaluates the replies to one round of requests.

use std::ops::Range;
use std::time::Duration;

use redis::Value;

use super::acquisition::{Acquisition, HeldByOther, Replies, is_over};
use super::observed::log_that_there_are_none;
use crate::base::clock::Moment;
use crate::base::owner::OwnerId;
use crate::engine::undo::{
    Unused, end_of, owner_of_grant, release_orphans, undo_lost_copies, undo_unclear_grant,
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
                replies.silent.push(at);
                unit.may_wait_as(&owner);
                return;
            }
        };
        match parts[0].protocol.acquired(&reply.reply) {
            Ok(AcquireReply::Held {
                at: part,
                millis,
                owner: holder,
            }) => {
                self.note_holder(at, &holder, &reply.reply);
                let unit = &mut self.units[at];
                undo_lost_copies(&unit.parts, &owner, terms, reply.lost_copies);
                unit.may_wait_as(&owner);
                replies.held.push(HeldByOther {
                    unit: at,
                    part: unit.parts[part.min(unit.parts.len() - 1)],
                    left: millis.map_or(UNKNOWN_LEASE, Duration::from_millis),
                    is_own: self.late.as_ref().map(OwnerId::as_str) == Some(&holder),
                });
                self.call.budget.note_holder(holder);
            }
            Ok(AcquireReply::Granted(_)) if reply.unreplicated.is_some() => {
                parts[0].core.observer.counters.unreplicated.add(1);
                replies.unreplicated = reply.unreplicated;
                let unused = Unused::new(parts, owner, end_of(terms));
                replies
                    .unused
                    .push(unused.with_lost_copies(reply.lost_copies));
            }
            Ok(AcquireReply::Granted(tokens)) => {
                self.note_grant(at, &owner, tokens, reply, replies);
            }
            Err(error) => {
                undo_unclear_grant(parts, &owner, terms, reply.lost_copies);
                let refusal = parts[0].core.redis.refusal(&parts[0].key, error);
                replies.failures.push(refusal);
            }
        }
    }

    /// Notes which owner holds a lock of this unit.
    fn note_holder(&mut self, at: usize, holder: &str, reply: &Value) {
        let part = self.units[at].parts[0];
        if part.protocol.is_exclusive() {
            self.rival.holds(holder);
        }
        if part.protocol.has_no_owner(reply)
            && !self.call.budget.is_wait_over()
            && !std::mem::replace(&mut self.is_logged, true)
        {
            log_that_there_are_none(part);
        }
    }

    /// Notes that a unit is granted, if its lease is not over.
    fn note_grant(
        &mut self,
        at: usize,
        owner: &OwnerId,
        tokens: Range<u64>,
        reply: Reply,
        replies: &mut Replies<'a>,
    ) {
        let unit = &mut self.units[at];
        let (parts, terms) = (&unit.parts, unit.terms);
        let grant = Granted {
            others_wait: parts[0].protocol.others_wait(&reply.reply),
            owner: owner_of_grant(parts, owner, reply.lost_copies),
            asked: reply.asked,
            replied: Moment::now(),
            terms,
            tokens,
        };
        if is_over(&grant, grant.replied) {
            // The reply took longer than the lease, so it may have expired in Redis.
            release_orphans(parts, &grant.owner, end_of(terms));
            replies.is_too_late = true;
            self.late = Some(grant.owner);
        } else {
            unit.granted = Some(grant);
        }
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
