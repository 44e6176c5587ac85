//! Extends the lease of each part, or confirms that Redis has the part.

use std::sync::Arc;

use super::group::{GrantReply, GrantRequest, request_each};
use super::held::{HeldPart, Needed, combine};
use crate::base::call_budget::CallBudget;
use crate::base::list::List;
use crate::core::Core;
use crate::error::Result;
use crate::local::Grant;
use crate::protocol::Verdict;
use crate::watchdog::{Renew, Renewal};

/// Prolongs the lease of each part to at least its milliseconds. With 0, Redis only confirms that
/// it has the part. A part that Redis does not have any more ends as lost.
pub(crate) fn extend_all(
    parts: &[(&HeldPart, u64)],
    needed: Needed,
    budget: &CallBudget,
) -> Result<()> {
    let checks: List<Result<()>> = parts.iter().map(|(part, _)| part.check()).collect();
    let live = parts.iter().zip(&checks).filter(|(_, check)| check.is_ok());
    let live = live.map(|(&(part, millis), _)| {
        let grant = part.hold.grant();
        let renewal = grant.renewal(millis, Some(part.hold.number()));
        (&part.core, grant, renewal)
    });
    let mut renewed = renew(&live.collect::<List<_>>(), needed, budget).into_iter();
    let results = parts.iter().zip(checks).map(|((part, _), check)| {
        check?;
        renewed.next().unwrap_or(Ok(()))?;
        part.hold.check()
    });
    combine(results, needed.of(parts.len()))
}

/// A grant to renew.
pub(super) type ToRenew<'a> = (&'a Arc<Core>, Arc<Grant>, Renewal);

/// Renews these grants, those of one client and slot by one request.
pub(super) fn renew(
    grants: &[ToRenew<'_>],
    needed: Needed,
    budget: &CallBudget,
) -> List<Result<()>> {
    let requests: List<GrantRequest<'_>> = grants
        .iter()
        .map(|(core, grant, renewal)| GrantRequest {
            core,
            key: grant.key(),
            call: renewal.call.clone(),
        })
        .collect();
    let replies = request_each(&requests, needed, budget);
    let results = grants.iter().zip(replies);
    results.map(|(one, reply)| apply(one, reply)).collect()
}

/// Applies the reply to a renewal.
fn apply((core, grant, renewal): &ToRenew<'_>, reply: Result<GrantReply>) -> Result<()> {
    let reply = reply?;
    match reply.verdict {
        Verdict::Lost(reason) => {
            core.watchdog.forget(grant.id());
            grant.lose(reason);
        }
        Verdict::Done { .. } => {
            grant.renewed(reply.asked, renewal);
            core.watchdog.reschedule(grant.id());
        }
    }
    Ok(())
}
