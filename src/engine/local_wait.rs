//! Waits in the local queue for the tickets, while other threads of this process have them.

use std::sync::Arc;

use super::parts::{LockCall, Missing};
use super::wait::wait_until;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::list::List;
use crate::base::owner::ThreadId;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::local::{Claim, LockId, Waiter, Wanted};

/// Waits behind the other threads of this process, or before them if this thread had the tickets
/// already. Returns the tickets, or `None` if the wait ends first. This thread does not hold the
/// `missing` parts.
///
/// The thread sleeps until it gets the tickets, until it is interrupted, or until the earliest
/// deadline. If the threads with the tickets have had no reply since this wait began or earlier, it
/// is not known whether the lock is free. Then, after its own deadline, a waiting thread still
/// waits for that reply, for at most one command timeout. It gets the tickets if the lock is free
/// and they are passed on to it.
pub(super) fn wait_for_claim(
    call: LockCall<'_>,
    missing: &[Missing<'_>],
    had_tickets: bool,
) -> Result<Option<Claim>> {
    let (parts, budget) = (call.parts, call.budget);
    let (queue, begun) = (&call.core.queue, Moment::now());
    let locks: List<LockId> = missing.iter().map(|(part, _)| part.id.clone()).collect();
    if budget.is_wait_over() && queue.outstanding_replies(&locks, begun).is_none() {
        return Ok(None);
    }
    let wanted = Wanted {
        locks: locks.clone(),
        terms: missing.iter().map(|&(_, terms)| terms).collect(),
        needed: parts.needed.of(missing.len()),
        kind: parts.kind(),
        is_shared: parts.kind().is_shared,
    };
    let waiter = Waiter::new(wanted, ThreadId::current(), budget.unparker());
    if let claim @ Some(_) = queue.enqueue(&waiter, had_tickets) {
        return Ok(claim);
    }
    let mut wait = LocalWait {
        call,
        begun,
        locks,
        waiter: &waiter,
        reply_deadline: None,
    };
    let result = wait_until(budget, parts.name(), || wait.round());
    // Tickets that were passed on to the thread meanwhile count.
    result.or_else(|error| queue.leave(&waiter).map(Some).ok_or(error))
}

/// The wait of one thread for its tickets.
struct LocalWait<'a> {
    call: LockCall<'a>,
    begun: Moment,
    locks: List<LockId>,
    waiter: &'a Arc<Waiter>,
    /// Set when the wait for the lock is over while the reply is outstanding.
    reply_deadline: Option<Moment>,
}

impl LocalWait<'_> {
    /// The tickets, or `Some(None)` if the wait is over. Otherwise sleeps: then `None`. Fails if
    /// the call is interrupted, or if the threads with the tickets have had no reply for too long.
    fn round(&mut self) -> Result<Option<Option<Claim>>> {
        let (call, locks) = (self.call, &self.locks);
        let (budget, queue) = (call.budget, &call.core.queue);
        if budget.is_wait_over() && self.reply_deadline.is_none() {
            // Before the checks below, so that a reply after them wakes this thread.
            queue.await_reply(self.waiter);
            let time = Moment::now().after(call.core.command_timeout);
            self.reply_deadline = Some(budget.call_deadline().min(time));
        }
        // Tickets or a reply that arrived while this thread could not run count, even after the
        // deadline.
        if let Some(claim) = queue.claim_of(self.waiter) {
            // Its wake-up may still be pending, and would end a later sleep.
            budget.take_wake_up();
            return Ok(Some(Some(claim)));
        }
        // A ticket that no thread has, and that this one does not get, is no outstanding reply.
        let is_outstanding = || queue.outstanding_replies(locks, self.begun) > Some(0);
        if budget.is_wait_over() && !is_outstanding() {
            return Ok(Some(queue.leave(self.waiter)));
        }
        let unanswered = queue.unanswered_since(locks);
        budget.set_unanswered_since(unanswered);
        budget.check_interrupt(call.parts.name())?;
        let end = self.reply_deadline;
        let is_over = match end {
            // A grant that too few replicas confirmed is a reply.
            Some(end) => end.is_past() || queue.confirmed_replicas(locks).is_some(),
            None => unanswered.is_some() && budget.reply_deadline().is_past(),
        };
        if is_over {
            return Err(no_reply(call, locks));
        }
        let longest = self.waiter.longest_sleep(Moment::now());
        match end {
            Some(end) => budget.park(longest.min(end.left())),
            None => budget.wait(longest.min(budget.reply_deadline().left())),
        };
        queue.look_again(self.waiter);
        Ok(None)
    }
}

/// Gives the tickets of these parts back. A grant that came with them, and that no other thread
/// wants, is released soon.
pub(super) fn give_up(mut claim: Claim, missing: &[Missing<'_>]) {
    for grant in claim.give_up() {
        let part = missing.iter().find(|(part, _)| part.id == grant.lock);
        part.inspect(|(part, _)| part.core.watchdog.reschedule(grant.id()));
    }
}

/// The error if the requests of the threads with these tickets had no reply, or only a grant that
/// too few replicas confirmed.
pub(super) fn no_reply(call: LockCall<'_>, locks: &[LockId]) -> Error {
    let first = &call.parts.list[0];
    let confirmed = call.core.queue.confirmed_replicas(locks);
    no_reply_error(&first.core, &first.key, confirmed, call.budget)
}

/// The error of a thread that waits for the reply to another thread of this process. `confirmed` is
/// set if that was a grant that only so few replicas confirmed.
pub(super) fn no_reply_error(
    core: &Core,
    key: &LockKey,
    confirmed: Option<u32>,
    budget: &CallBudget,
) -> Error {
    if let Some(confirmed) = confirmed {
        return core.redis.too_few_replicas(key, confirmed);
    }
    let cause = "timed out while another thread of this process was waiting for Redis";
    core.redis.unavailable(key, budget, cause.into())
}
