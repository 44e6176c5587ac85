//! The wait at home: behind the other threads of this process, for the ticket to ask Redis.

use super::handle::Handle;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::owner::ThreadId;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::local::{Enqueued, Ticket};

/// Waits behind the other threads of this process, one of which asks Redis for the lock or holds
/// it. Returns the ticket, or `None` if it has not come before the wait for the lock ends.
///
/// The thread sleeps until its ticket comes, until it is interrupted, or until the earliest moment at
/// which it may have to give up. If the thread with the ticket has had no reply since `heard` or
/// before, it is not yet known whether the lock is free. Then a thread whose own wait is over still
/// waits for that reply, for at most one command timeout. It gets the ticket if the lock is free and
/// the ticket comes to it.
///
/// `parts` are the locks that are held together with this one, itself included.
pub(super) fn wait_in_line(
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
    // Set when the wait for the lock is over, and the reply is still to come.
    let mut reply_deadline = None;
    loop {
        if budget.is_wait_over() && reply_deadline.is_none() {
            // Before the checks below: a reply that they do not see wakes this thread.
            queue.await_reply(key.key(), thread, budget.unparker());
            let time = Moment::now().after(core.command_timeout);
            reply_deadline = Some(budget.call_deadline().min(time));
        }
        // What has come while this thread could not run counts, however late it is.
        if !budget.is_interrupted() {
            if let Some(ticket) = queue.take_ticket(key.key(), thread) {
                return Ok(Some(ticket));
            }
            if is_settled() {
                return Ok(queue.leave(key.key(), thread));
            }
        }
        let silent = queue.unanswered_since(key.key());
        budget.set_unanswered_since(silent);
        let given_up = budget
            .check_interrupt(key.name())
            .and_then(|()| match reply_deadline {
                // That too few replicas have it is an answer.
                Some(end) if end.is_past() || queue.confirmed_replicas(key.key()).is_some() => {
                    Err(no_reply(core, key, budget))
                }
                Some(_) => Ok(()),
                None => silence(core, key, silent, budget),
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

/// Has the watchdogs confirm the holds of these locks more often, because a thread has begun to
/// wait for them.
pub(super) fn confirm_soon(parts: &[Handle]) {
    for Handle { core, key, .. } in parts {
        if let Some(hold) = core.queue.current_hold(key.key()) {
            core.watchdog.reschedule(hold.id());
        }
    }
}

/// Fails once Redis has been silent for too long, towards this thread or the one it waits for.
pub(super) fn silence(
    core: &Core,
    key: &LockKey,
    since: Option<Moment>,
    budget: &CallBudget,
) -> Result<()> {
    if since.is_some() && budget.reply_deadline().is_past() {
        return Err(no_reply(core, key, budget));
    }
    Ok(())
}

/// What the thread with the ticket has asked has had no answer that counts.
fn no_reply(core: &Core, key: &LockKey, budget: &CallBudget) -> Error {
    if let Some(confirmed) = core.queue.confirmed_replicas(key.key()) {
        return core.redis.too_few_replicas(key, confirmed);
    }
    let cause = "no reply in time to the thread that asks for all of this process";
    core.redis.unavailable(key, budget, cause.into())
}
