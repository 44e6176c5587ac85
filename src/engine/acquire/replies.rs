//! Evaluates the replies to one round of requests.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::acquisition::{Acquisition, HeldByOther, Replies};
use super::line::{LONGEST, Polls};
use crate::base::clock::Moment;
use crate::base::owner::OwnerId;
use crate::engine::parts::Part;
use crate::engine::undo::{
    end_of, owner_of_grant, release_orphans, undo_lost_copies, undo_unclear_grant,
};
use crate::error::{Error, Result};
use crate::local::Granted;
use crate::observe::tell;
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
        match AcquireReply::of(&reply.reply) {
            Ok(AcquireReply::Held {
                at: part,
                millis,
                owner: holder,
                rank,
                listens,
            }) => {
                undo_lost_copies(parts, &owner, terms, reply.lost_copies);
                let part = parts[part.min(parts.len() - 1)];
                let asked = (listens, reply.asked);
                let held = self.refused((at, part), (millis, holder, rank), asked);
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

    /// Notes whether the client is in the line now, and logs why no release may end the wait.
    fn note_refusal(&mut self, part: &Part, rank: Option<u32>, has_no_owner: bool) {
        let waits = !self.call.budget.is_wait_over();
        if self.place.is_some() {
            self.is_known_to_wait = rank.is_some();
            if rank.is_none() && waits {
                log_that_there_is_no_line(part);
            }
        }
        if waits && !self.is_logged && has_no_owner {
            self.is_logged = true;
            log_that_there_are_none(part);
        }
    }

    /// Evaluates the refusal of a request: `holder` holds this part of the unit.
    fn refused(
        &mut self,
        (at, part): (usize, &'a Part),
        (millis, holder, rank): (Option<u64>, String, Option<u32>),
        (also_listens, asked): (bool, Moment),
    ) -> HeldByOther<'a> {
        let has_no_owner = millis.is_none() && !part.kind.is_exclusive;
        self.note_refusal(part, rank, has_no_owner);
        let longest = if has_no_owner { LONGEST } else { UNKNOWN_LEASE };
        let left = millis.map_or(longest, Duration::from_millis);
        let is_own = self.late.as_ref().map(OwnerId::as_str) == Some(&holder);
        let is_reserved = part.kind.is_exclusive && holder.is_empty() && rank > Some(0);
        if is_reserved {
            // The client that was called may not answer.
            self.polls = Polls::default();
        }
        // Of several locks, another one may be reserved for this client for that time.
        let left = match is_reserved && self.units[at].parts.len() == 1 {
            true => LONGEST,
            false => left,
        };
        // A client of Redisson does not call the line. So the first two clients listen to its
        // release.
        let is_foreign = !holder.is_empty() && !OwnerId::is_of_this_library(&holder);
        if is_foreign {
            self.claim.refused_by(&part.id, holder.clone());
        }
        let listens = is_foreign && matches!(rank, Some(0 | 1)) || also_listens;
        self.call.budget.note_holder(holder);
        HeldByOther {
            unit: at,
            part,
            left,
            rank,
            is_foreign,
            listens,
            asked,
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

/// Logs that a thread waits although no release can end its wait.
fn log_that_there_are_none(semaphore: &Part) {
    let (name, node) = (semaphore.key.shared_name(), semaphore.node());
    tell(move || {
        tracing::warn!(
            semaphore = &*name,
            node = &*node,
            "a thread waits for a permit, but the semaphore has no permits, available or leased; \
             set their number (set_permits): it was never set, or the key of the leases was lost"
        );
    });
}

/// Logs, once for each client, that Redis refuses the line of a lock for which a thread waits.
fn log_that_there_is_no_line(lock: &Part) {
    if lock.core.logged_no_line.swap(true, Ordering::Relaxed) {
        return;
    }
    let (name, node) = (lock.key.shared_name(), lock.node());
    tell(move || {
        tracing::warn!(
            lock = &*name,
            node = &*node,
            "Redis refuses the line of a lock, so each release wakes all waiting clients; if the \
             user lacks permissions, allow the keys leasehold_line:* and the commands ZADD, \
             ZCOUNT, ZRANGE, ZRANGEBYSCORE, ZRANK, ZREM and ZSCORE"
        );
    });
}
