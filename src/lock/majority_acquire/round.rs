//! One round: requests the lock from all servers at once.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::{MajorityAcquire, MajorityOutcome, POLL};
use crate::base::clock::Moment;
use crate::base::owner::{self, OwnerId, ThreadId};
use crate::error::{Error, Result};
use crate::lease::drift;
use crate::local::{Grant, Hold, QueueEntry, Quorum};
use crate::lock::acquire::{
    owner_of_grant, owner_of_next_copy, release_orphan, start_hold, undo_lost_copies,
    undo_unclear_grant,
};
use crate::lock::handle::Handle;
use crate::lock::majority::joined;
use crate::lock::ticket::confirm_soon;
use crate::request::{Enough, NoReply, Request, broadcast};
use crate::script::{self, AcquireReply};

/// The replies of all servers.
#[derive(Default)]
struct Replies {
    granted: Vec<(usize, Grant)>,
    /// The servers where other owners hold the lock, with what is left of their leases.
    held: Vec<(Duration, usize)>,
    /// The first server for which another thread of this process has the ticket.
    queued_at: Option<usize>,
    failures: Vec<Error>,
}

impl MajorityAcquire<'_> {
    /// Requests the lock. Keeps what a majority grants, and releases what a minority grants.
    pub(super) fn request_majority(&mut self) -> Result<MajorityOutcome> {
        let replies = self.request_all();
        let (needed, servers) = (self.lock.needed(), self.lock.locks.len());
        let refusals = |error: &&Error| !matches!(error, Error::Unavailable { .. });
        if replies.failures.iter().filter(refusals).count() + needed > servers {
            self.undo(replies.granted);
            return Err(joined(self.lock.name(), replies.failures, self.budget));
        }
        let replied = replies.granted.len() + replies.held.len();
        if replies.granted.len() >= needed {
            return Ok(self.keep(replies.granted));
        }
        let granted: Vec<usize> = replies.granted.iter().map(|&(at, _)| at).collect();
        self.undo(replies.granted);
        if replied < needed {
            return Ok(MajorityOutcome::Unanswered(joined(
                self.lock.name(),
                replies.failures,
                self.budget,
            )));
        }
        if let Some(at) = replies.queued_at {
            return Ok(MajorityOutcome::Queued(at));
        }
        if !granted.is_empty() && replies.held.len() < needed {
            return Ok(MajorityOutcome::Split);
        }
        let (mut held, held_by_competitors): (Vec<_>, Vec<_>) = replies
            .held
            .into_iter()
            .partition(|(_, at)| !self.minority_grants.contains(at));
        if held.len() < needed {
            // Another owner has acquired a majority since.
            held.extend(held_by_competitors);
            self.minority_grants.clear();
        }
        self.minority_grants.extend(granted);
        held.sort_unstable();
        let missing = needed - self.minority_grants.len();
        self.held_at = held.iter().map(|&(_, at)| at).collect();
        Ok(MajorityOutcome::HeldByOthers {
            left: held.get(missing - 1).map_or(POLL, |&(left, _)| left),
            split: !self.minority_grants.is_empty(),
        })
    }

    fn request_all(&mut self) -> Replies {
        let thread = ThreadId::current();
        let mut replies = Replies::default();
        let mut requested = Vec::with_capacity(self.tickets.len());
        for (at, lock) in self.lock.locks.iter().enumerate() {
            if self.tickets[at].is_none() {
                match lock.core.queue.enter(lock.key.key(), thread) {
                    QueueEntry::Front(ticket) => self.tickets[at] = Some(ticket),
                    // Another thread of this process uses the server for a lock on other servers.
                    _ => {
                        replies.held.push((POLL, at));
                        replies.queued_at.get_or_insert(at);
                        continue;
                    }
                }
            }
            requested.push((at, OwnerId::current(&lock.core.id)));
        }
        let request = |(at, owner): &(usize, OwnerId)| {
            let lock = &self.lock.locks[*at];
            Request {
                client: &lock.core.redis,
                lock: &lock.key,
                call: script::acquire(&lock.key, owner, self.terms[*at].millis),
            }
        };
        if requested.len() < self.lock.needed() {
            return replies;
        }
        let requests: Vec<Request<'_>> = requested.iter().map(request).collect();
        let enough = Enough {
            needed: self.lock.needed(),
            is_good: |reply| matches!(reply, Value::Nil),
        };
        let mut owners: Vec<OwnerId> = requested.iter().map(|(_, owner)| owner.clone()).collect();
        let next_call = |index: usize| {
            owners[index] = owner_of_next_copy(&owners[index]);
            Some(request(&(requested[index].0, owners[index].clone())).call)
        };
        let results = broadcast(&requests, enough, next_call, self.budget);
        for ((&(at, _), owner), result) in requested.iter().zip(owners).zip(results) {
            let lock = &self.lock.locks[at];
            let terms = self.terms[at];
            let reply = match result {
                Ok(reply) => reply,
                Err(NoReply { error, lost_copies }) => {
                    undo_lost_copies(&lock.core, &lock.key, owner, terms, lost_copies);
                    replies.failures.push(error);
                    continue;
                }
            };
            match script::acquire_reply(&reply.reply) {
                Ok(AcquireReply::Taken(token)) => {
                    let grant = Grant {
                        owner: owner_of_grant(&lock.key, &owner, reply.lost_copies),
                        asked: reply.asked,
                        terms,
                        token,
                    };
                    replies.granted.push((at, grant));
                }
                Ok(AcquireReply::Held(millis)) => {
                    undo_lost_copies(&lock.core, &lock.key, owner, terms, reply.lost_copies);
                    let left = millis.map_or(POLL, Duration::from_millis);
                    replies.held.push((left, at));
                }
                Err(error) => {
                    undo_unclear_grant(&lock.core, &lock.key, owner, terms, reply.lost_copies);
                    let refusal = lock.core.redis.refusal(&lock.key, error);
                    replies.failures.push(refusal);
                }
            }
        }
        replies
    }

    /// Turns the grants into holds, if a majority of their leases has not ended yet.
    fn keep(&mut self, granted: Vec<(usize, Grant)>) -> MajorityOutcome {
        let now = Moment::now();
        let lives = |(_, grant): &&(usize, Grant)| {
            let lease = Duration::from_millis(grant.terms.millis);
            now < grant.asked.after(lease - drift(lease))
        };
        if granted.iter().filter(lives).count() < self.lock.needed() {
            let cause = "the replies arrived after the leases that they granted had ended";
            let first = &self.lock.locks[0];
            let redis = &first.core.redis;
            let error = redis.unavailable(&first.key, self.budget, cause.into());
            self.undo(granted);
            return MajorityOutcome::Unanswered(error);
        }
        let mut held = Vec::with_capacity(granted.len());
        for (at, grant) in granted {
            let Handle { core, key, .. } = &self.lock.locks[at];
            let observer = Arc::clone(&core.observer);
            let hold = Arc::new(Hold::new(key.clone(), grant, &core.queue, observer));
            // Always set: without a ticket there was no request.
            if let Some(ticket) = self.tickets[at].take() {
                held.push(start_hold(core, ticket, hold, self.budget));
            }
        }
        let holds: Vec<Arc<Hold>> = held.iter().map(|held| Arc::clone(&held.hold)).collect();
        Quorum::join(&holds, self.lock.needed());
        if holds.iter().any(|hold| hold.is_awaited()) {
            // Threads wait for one part, so the watchdogs confirm all of them more often.
            confirm_soon(&self.lock.locks);
        }
        MajorityOutcome::Acquired(held)
    }

    /// Releases what a minority granted. What gets no reply is released in the background.
    fn undo(&self, granted: Vec<(usize, Grant)>) {
        let request = |(at, grant): &(usize, Grant)| {
            let lock = &self.lock.locks[*at];
            Request {
                client: &lock.core.redis,
                lock: &lock.key,
                call: script::release(&lock.key, &grant.owner),
            }
        };
        let requests: Vec<Request<'_>> = granted.iter().map(request).collect();
        let enough = Enough {
            needed: requests.len(),
            is_good: |_| true,
        };
        let results = broadcast(&requests, enough, |_| None, self.budget);
        for ((at, grant), result) in granted.into_iter().zip(results) {
            if result.is_err() {
                let lock = &self.lock.locks[at];
                owner::retire();
                release_orphan(&lock.core, &lock.key, grant.owner, grant.terms);
            }
        }
    }
}
