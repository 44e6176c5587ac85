//! Waits in the local queue for the ticket, while another thread of this process has it.

use super::handle::Handle;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::owner::ThreadId;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::local::{Enqueued, Ticket};

/// Waits behind the other threads of this process, one of which requests the lock or holds it.
/// Returns the ticket, or `None` if the wait ends first.
///
/// The thread sleeps until it gets the ticket, until it is interrupted, or until the earliest
/// deadline. If the thread with the ticket has had no reply since `heard` or earlier, it is not
/// known whether the lock is free. Then, after its own deadline, a waiting thread still waits for
/// that reply, for at most one command timeout. It gets the ticket if the lock is free and the
/// ticket is passed on to it.
///
/// `parts` are the locks that are held together with this one, including this one.
pub(super) fn wait_for_ticket(
    handle: &Handle,
    parts: &[Handle],
    budget: &CallBudget,
    heard: Moment,
) -> Result<Option<Ticket>> {
    let Handle { core, key, .. } = handle;
    let (queue, thread) = (&core.queue, ThreadId::current());
    let is_settled = || budget.is_wait_over() && !queue.may_be_free(key.key(), heard);
    if is_settled() {
        return Ok(None);
    }
    match queue.enqueue(key.key(), thread, budget.unparker()) {
        Enqueued::Front(ticket) => return Ok(Some(ticket)),
        Enqueued::Queued { first: true } => confirm_soon(parts),
        Enqueued::Queued { first: false } => {}
    }
    // Set when the wait for the lock is over while the reply is outstanding.
    let mut reply_deadline = None;
    loop {
        if budget.is_wait_over() && reply_deadline.is_none() {
            // Before the checks below, so that a reply after them wakes this thread.
            queue.await_reply(key.key(), thread, budget.unparker());
            let time = Moment::now().after(core.command_timeout);
            reply_deadline = Some(budget.call_deadline().min(time));
        }
        // A ticket or reply that arrived while this thread could not run counts, even after the
        // deadline.
        if !budget.is_interrupted() {
            if let Some(ticket) = queue.take_ticket(key.key(), thread) {
                return Ok(Some(ticket));
            }
            if is_settled() {
                return Ok(queue.leave(key.key(), thread));
            }
        }
        let unanswered = queue.unanswered_since(key.key());
        budget.set_unanswered_since(unanswered);
        let given_up = budget
            .check_interrupt(key.name())
            .and_then(|()| match reply_deadline {
                // A grant that too few replicas confirmed is a reply.
                Some(end) if end.is_past() || queue.confirmed_replicas(key.key()).is_some() => {
                    Err(no_reply_error(core, key, budget))
                }
                Some(_) => Ok(()),
                None => check_reply_deadline(core, key, unanswered, budget),
            });
        if let Err(error) = given_up {
            drop(queue.leave(key.key(), thread));
            return Err(error);
        }
        match reply_deadline {
            Some(end) => budget.park(end.left()),
            None => budget.wait(budget.reply_deadline().left()),
        };
    }
}

/// Makes the watchdogs confirm the holds of these locks more often, because a thread has begun to
/// wait for them.
pub(super) fn confirm_soon(parts: &[Handle]) {
    for Handle { core, key, .. } in parts {
        if let Some(hold) = core.queue.current_hold(key.key()) {
            core.watchdog.reschedule(hold.id());
        }
    }
}

/// Fails if Redis has not replied before the reply deadline, to this thread or to the thread with
/// the ticket.
pub(super) fn check_reply_deadline(
    core: &Core,
    key: &LockKey,
    since: Option<Moment>,
    budget: &CallBudget,
) -> Result<()> {
    if since.is_some() && budget.reply_deadline().is_past() {
        return Err(no_reply_error(core, key, budget));
    }
    Ok(())
}

/// The error if the requests of the thread with the ticket had no reply, or only a grant that too
/// few replicas confirmed.
fn no_reply_error(core: &Core, key: &LockKey, budget: &CallBudget) -> Error {
    if let Some(confirmed) = core.queue.confirmed_replicas(key.key()) {
        return core.redis.too_few_replicas(key, confirmed);
    }
    let cause = "timed out while another thread of this process was waiting for Redis";
    core.redis.unavailable(key, budget, cause.into())
}
