//! Waits in the local queue for the ticket, while another thread of this process has it.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use super::{LockCall, SingleLock, repeat_until_done};
use crate::base::{CallBudget, LockKey, Moment};
use crate::core::Core;
use crate::error::{Cause, Error, Result};
use crate::local::{Claim, TicketState, Waiter, Wanted};

/// Waits behind the other threads of this process. Returns the ticket, or `None` if the wait ends
/// first. This thread does not hold the lock.
///
/// The thread sleeps until it gets the ticket, until it is interrupted, or until the earliest
/// deadline. If the thread with the ticket waits for Redis, this thread may overrun its deadline by
/// one command timeout, because only that reply tells whether the lock was free. It gets the ticket
/// if the lock is free and the ticket is passed on to it.
pub(crate) fn wait_for_claim(call: LockCall<'_>) -> Result<Option<Claim>> {
    let LockCall { lock, budget, .. } = call;
    let (queue, begun) = (&lock.core.queue, Moment::now());
    if budget.is_wait_over() && queue.ticket_state(&lock.id, begun) == TicketState::LockIsHeld {
        return Ok(None);
    }
    let wanted = Wanted {
        lock: lock.id.clone(),
        terms: call.terms,
        kind: lock.kind,
        also: call.also.iter().map(|other| other.id.clone()).collect(),
    };
    let waiter = Waiter::new(wanted, lock.holder(), budget.unparker());
    if let claim @ Some(_) = queue.enqueue(&waiter) {
        return Ok(claim);
    }
    let mut wait = LocalWait {
        lock,
        budget,
        begun,
        waiter: &waiter,
        reply_deadline: None,
    };
    let result = repeat_until_done(budget, lock.name(), || wait.round());
    // A ticket that was passed on to the thread meanwhile counts.
    result.or_else(|error| queue.leave(&waiter).map(Some).ok_or(error))
}

/// The wait of one thread for its ticket.
struct LocalWait<'a> {
    lock: &'a SingleLock,
    budget: &'a CallBudget<'a>,
    begun: Moment,
    waiter: &'a Arc<Waiter>,
    /// Set when the wait for the lock is over while the reply is outstanding.
    reply_deadline: Option<Moment>,
}

impl LocalWait<'_> {
    /// Breaks with the ticket, or with `None` when the wait of the call is over. Otherwise sleeps.
    /// Fails if the call is interrupted, or if the thread with the ticket has had no reply for too
    /// long.
    fn round(&mut self) -> Result<ControlFlow<Option<Claim>>> {
        let (core, lock, budget) = (&self.lock.core, &self.lock.id, self.budget);
        let queue = &core.queue;
        if budget.is_wait_over() && self.reply_deadline.is_none() {
            // Before the checks below, so that a reply after them wakes this thread.
            queue.await_reply(self.waiter);
            let time = Moment::now().after(core.command_timeout);
            self.reply_deadline = Some(budget.call_deadline().min(time));
        }
        // A ticket or a reply that arrived while this thread could not run counts, even after the
        // deadline.
        if let Some(claim) = queue.claim_of(self.waiter) {
            // Its wake-up may still be pending, and would end a later sleep.
            budget.take_wake_up();
            return Ok(Break(Some(claim)));
        }
        // A ticket that no thread has, and that this one does not get, is no outstanding reply.
        let is_outstanding = || queue.ticket_state(lock, self.begun) == TicketState::Unanswered;
        if budget.is_wait_over() && !is_outstanding() {
            return Ok(Break(queue.leave(self.waiter)));
        }
        let unanswered = queue.unanswered_since(lock);
        budget.set_unanswered_since(unanswered);
        budget.check_interrupt(self.lock.name())?;
        let is_over = match self.reply_deadline {
            Some(end) => end.is_past(),
            None => unanswered.is_some() && budget.reply_deadline().is_past(),
        };
        if is_over {
            return Err(no_reply(core, &self.lock.key, budget));
        }
        match self.reply_deadline {
            Some(end) => budget.park(end.left()),
            None => budget.wait(budget.reply_deadline().left()),
        };
        Ok(Continue(()))
    }
}

/// Gives the ticket of a lock back. A grant that came with it, and that no other thread wants, is
/// released soon.
pub(crate) fn give_up(mut claim: Claim, lock: &SingleLock) {
    if let Some(grant) = claim.give_up() {
        lock.core.watchdog.reschedule(grant.id());
    }
}

/// The error of a thread that waits for the reply to another thread of this process.
pub(crate) fn no_reply(core: &Core, key: &LockKey, budget: &CallBudget) -> Error {
    let cause = "timed out while another thread of this process was waiting for Redis";
    core.redis.unavailable(key, budget, Cause::from(cause))
}
