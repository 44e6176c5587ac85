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
    let live: List<ToRenew<'_>> = parts
        .iter()
        .zip(&checks)
        .filter(|(_, check)| check.is_ok())
        .map(|(&(part, millis), _)| ToRenew {
            core: &part.core,
            grant: part.hold.grant(),
            hold: Some(part.hold.number()),
            millis,
        })
        .collect();
    let mut renewed = renew(&live, needed, budget).into_iter();
    let results: List<Result<()>> = parts
        .iter()
        .zip(checks)
        .map(|((part, _), check)| {
            check?;
            renewed.next().unwrap_or(Ok(()))?;
            part.hold.check()
        })
        .collect();
    let needed = needed.of(results.len());
    combine(results.into_iter(), needed)
}

/// A grant to renew.
pub(super) struct ToRenew<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) grant: Arc<Grant>,
    /// The hold that gets the longer lease.
    pub(super) hold: Option<u64>,
    /// With 0, Redis only confirms that it has the grant.
    pub(super) millis: u64,
}

/// Renews these grants, those of one client and slot by one request.
pub(super) fn renew(
    grants: &[ToRenew<'_>],
    needed: Needed,
    budget: &CallBudget,
) -> List<Result<()>> {
    let renewals: List<Renewal> = grants
        .iter()
        .map(|one| one.grant.renewal(one.millis, one.hold))
        .collect();
    let requests: List<GrantRequest<'_>> = grants
        .iter()
        .zip(&renewals)
        .map(|(one, renewal)| GrantRequest {
            core: one.core,
            key: one.grant.key(),
            call: renewal.call.clone(),
        })
        .collect();
    let replies = request_each(&requests, needed, budget);
    let results = grants.iter().zip(&renewals).zip(replies);
    results
        .map(|((one, renewal), reply)| apply(one.core, &one.grant, renewal, reply))
        .collect()
}

/// Applies the reply to a renewal.
fn apply(
    core: &Core,
    grant: &Arc<Grant>,
    renewal: &Renewal,
    reply: Result<GrantReply>,
) -> Result<()> {
    let reply = reply?;
    if let Verdict::Lost(reason) = reply.verdict {
        core.watchdog.forget(grant.id());
        grant.lose(reason);
        return Ok(());
    }
    grant.renewed(reply.asked, renewal);
    core.watchdog.reschedule(grant.id());
    Ok(())
}
