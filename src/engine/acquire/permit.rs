//! Acquires what several threads of a client can have at the same time: permits of semaphores. Each
//! has a grant and a hold of its own, which keep no ticket.

use super::acquire_missing;
use super::acquisition::Acquisition;
use crate::base::list::List;
use crate::engine::held::HeldPart;
use crate::engine::parts::{LockCall, Missing};
use crate::error::{Error, Result};
use crate::lease::Lease;

/// Acquires a permit; `None` if the budget ends first.
///
/// The first request needs no ticket, so the threads of a client send their first requests at the
/// same time, while no other client is known to wait. The ticket is the right to wait: one thread of
/// the client has its place in the line, and those behind it wait in the local queue. A thread that
/// waits is not passed by a thread that comes later and waits, too.
pub(super) fn acquire_permit(call: LockCall<'_>, lease: Lease) -> Result<Option<List<HeldPart>>> {
    let (parts, core, budget) = (call.parts, call.core, call.budget);
    let terms = lease.terms(core.watchdog_lease)?;
    let missing: List<Missing<'_>> = parts.list.iter().map(|part| (part, terms)).collect();
    let may_pass = budget.is_wait_over();
    let claim = parts
        .list
        .first()
        .and_then(|part| core.queue.claim_without_ticket(&part.id, may_pass));
    if let Some(claim) = claim {
        let at_once = budget.without_wait();
        let _calls = parts.begin_calls();
        budget.check_interrupt(parts.name())?;
        let call = parts.call(core, &at_once);
        let mut acquisition = Acquisition::new(call, &missing, claim, None);
        acquisition.place = None;
        acquisition.leaves_reserved = !may_pass;
        let is_granted = acquisition.acquire_all(None);
        if let Ok(true) = is_granted {
            return Ok(Some(acquisition.keep()));
        }
        acquisition.undo();
        let has_time = !budget.is_wait_over()
            && !at_once.call_deadline().is_past()
            && !at_once.reply_deadline().is_past();
        match is_granted {
            // The call has time for further requests. It is unavailable if the reply took longer
            // than the lease.
            Ok(_) | Err(Error::TooFewReplicas { .. } | Error::Unavailable { .. }) if has_time => {}
            result => return result.map(|_| None),
        }
    }
    acquire_missing(call, &missing, (call.enter_queue().claim, None))
}
