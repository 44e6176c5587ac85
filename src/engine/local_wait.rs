//! Waits in the local queue for the tickets, while other threads of this process have them.

use std::sync::Arc;

use super::parts::{Missing, Parts};
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::ThreadId;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::local::{Claim, LocalQueue, LockId, Waiter, Wanted};

/// Waits behind the other threads of this process. Returns the tickets, or `None` if the wait ends
/// first. This thread does not hold the `missing` parts.
///
/// The thread sleeps until it gets the tickets, until it is interrupted, or until the earliest
/// deadline. If the threads with the tickets have had no reply since `heard` or earlier, it is not
/// known whether the lock is free. Then, after its own deadline, a waiting thread still waits for
/// that reply, for at most one command timeout. It gets the tickets if the lock is free and they
/// are passed on to it.
pub(super) fn wait_for_claim(
    parts: &Parts,
    core: &Core,
    missing: &[Missing<'_>],
    budget: &CallBudget,
    heard: Moment,
) -> Result<Option<Claim>> {
    let queue: &Arc<LocalQueue> = &core.queue;
    let locks: List<LockId> = missing.iter().map(|(part, _)| part.id.clone()).collect();
    if budget.is_wait_over() && queue.outstanding_replies(&locks, heard).is_none() {
        return Ok(None);
    }
    let wanted = Wanted {
        locks: locks.clone(),
        terms: missing.iter().map(|&(_, terms)| terms).collect(),
        needed: parts.needed.of(missing.len()),
        kind: parts.kind(),
        is_shared: parts.is_shared(),
    };
    let waiter = Waiter::new(wanted, ThreadId::current(), budget.unparker());
    if let Some(claim) = queue.enqueue(&waiter) {
        return Ok(Some(claim));
    }
    // Set when the wait for the lock is over while the reply is outstanding.
    let mut reply_deadline = None;
    loop {
        if budget.is_wait_over() && reply_deadline.is_none() {
            // Before the checks below, so that a reply after them wakes this thread.
            queue.await_reply(&waiter);
            let time = Moment::now().after(core.command_timeout);
            reply_deadline = Some(budget.call_deadline().min(time));
        }
        // Tickets or a reply that arrived while this thread could not run count, even after the
        // deadline.
        if !budget.is_interrupted() {
            if let Some(claim) = queue.claim_of(&waiter) {
                // Its wake-up may still be pending, and would end a later sleep.
                budget.take_wake_up();
                return Ok(Some(claim));
            }
            // A ticket that no thread has, and that this one does not get, is no outstanding reply.
            let is_outstanding = || queue.outstanding_replies(&locks, heard) > Some(0);
            if budget.is_wait_over() && !is_outstanding() {
                return Ok(queue.leave(&waiter));
            }
        }
        let unanswered = queue.unanswered_since(&locks);
        budget.set_unanswered_since(unanswered);
        let given_up = budget
            .check_interrupt(parts.name())
            .and_then(|()| match reply_deadline {
                // A grant that too few replicas confirmed is a reply.
                Some(end) if end.is_past() || queue.confirmed_replicas(&locks).is_some() => {
                    Err(no_reply_error(core, parts, &locks, budget))
                }
                Some(_) => Ok(()),
                None => check_reply_deadline(core, parts, &locks, unanswered, budget),
            });
        if let Err(error) = given_up {
            if let Some(claim) = queue.leave(&waiter) {
                give_up(claim, missing);
            }
            return Err(error);
        }
        let longest = waiter.longest_sleep(Moment::now());
        match reply_deadline {
            Some(end) => budget.park(longest.min(end.left())),
            None => budget.wait(longest.min(budget.reply_deadline().left())),
        };
        queue.look_again(&waiter);
    }
}

/// Gives the tickets of these parts back. A grant that came with them, and that no other thread
/// wants, is released soon.
pub(super) fn give_up(claim: Claim, missing: &[Missing<'_>]) {
    for grant in claim.give_up() {
        let part = missing.iter().find(|(part, _)| part.id == *grant.lock());
        part.inspect(|(part, _)| part.core.watchdog.reschedule(grant.id()));
    }
}

/// Fails if Redis has not replied before the reply deadline, to this thread or to the threads with
/// the tickets.
pub(super) fn check_reply_deadline(
    core: &Core,
    parts: &Parts,
    locks: &[LockId],
    since: Option<Moment>,
    budget: &CallBudget,
) -> Result<()> {
    if since.is_some() && budget.reply_deadline().is_past() {
        return Err(no_reply_error(core, parts, locks, budget));
    }
    Ok(())
}

/// The error if the requests of the threads with the tickets had no reply, or only a grant that too
/// few replicas confirmed.
fn no_reply_error(core: &Core, parts: &Parts, locks: &[LockId], budget: &CallBudget) -> Error {
    let Some(first) = parts.list.first() else {
        return parts.not_held();
    };
    let redis = &first.core.redis;
    if let Some(confirmed) = core.queue.confirmed_replicas(locks) {
        return redis.too_few_replicas(&first.key, confirmed);
    }
    let cause = "timed out while another thread of this process was waiting for Redis";
    redis.unavailable(&first.key, budget, cause.into())
}
