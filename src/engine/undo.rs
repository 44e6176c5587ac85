//! Releases what a request was granted, or may have been granted, but no thread uses.

use std::time::Duration;

use super::group::{GrantRequest, request_each};
use super::held::Needed;
use super::parts::Part;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::owner::OwnerId;
use crate::lease::Terms;
use crate::request::LostCopies;
use crate::script::Call;

/// A request looks for a grant to at most this many earlier copies without a reply. A lock that an
/// even older copy acquired ends with its lease.
const MAX_OLDER_IDS: usize = 7;

/// The owner id for another copy of a request. Each copy has its own: otherwise a late copy could
/// acquire the lock again after the grant was lost, with the owner id of that grant.
pub(super) fn owner_of_next_copy(owner: &OwnerId) -> OwnerId {
    owner.newest(MAX_OLDER_IDS).with_fresh_name()
}

/// Sends a release of these parts of one group after each of these lost copies.
fn compensate(parts: &[&Part], owner: &OwnerId, lost_copies: LostCopies) {
    let release = |part: &&Part| part.kind.release(&part.key, owner);
    if let Some(call) = Call::joined(parts.iter().map(release)) {
        lost_copies.compensate(&call);
    }
}

/// The owner id of a grant to the last copy of a request. Undoes the older copies.
pub(super) fn owner_of_grant(parts: &[&Part], owner: &OwnerId, lost_copies: LostCopies) -> OwnerId {
    let (owner, older) = owner.split();
    if let Some(older) = older {
        compensate(parts, &older, lost_copies);
    }
    owner
}

/// Undoes the copies of an acquire request that got no reply, so that none of them leaves a lock
/// without a holder.
pub(super) fn undo_lost_copies(
    parts: &[&Part],
    owner: &OwnerId,
    terms: Terms,
    lost_copies: LostCopies,
) {
    if lost_copies.is_ambiguous() {
        undo_unclear_grant(parts, owner, terms, lost_copies);
    }
}

/// When the lease of a request with these terms is over that may be executed now.
pub(super) fn end_of(terms: Terms) -> Moment {
    Moment::now().after(Duration::from_millis(terms.millis))
}

/// Undoes a request whose reply is not the expected one. Redis may have granted the locks.
pub(super) fn undo_unclear_grant(
    parts: &[&Part],
    owner: &OwnerId,
    terms: Terms,
    lost_copies: LostCopies,
) {
    compensate(parts, owner, lost_copies);
    release_orphans(parts, owner, end_of(terms));
}

/// Releases in the background what `owner` may hold.
pub(super) fn release_orphans(parts: &[&Part], owner: &OwnerId, until: Moment) {
    for part in parts {
        let call = part.kind.release(&part.key, owner);
        part.core
            .watchdog
            .release_orphan(part.key.clone(), call, until);
    }
}

/// Sends these releases of grants that no thread uses, and whose leases end at `ends` at the
/// latest. What gets no reply in time is released in the background.
pub(super) fn release_unused(
    releases: &[GrantRequest<'_>],
    ends: Moment,
    needed: Needed,
    budget: &CallBudget,
) {
    let replies = request_each(releases, needed, budget);
    for (GrantRequest { core, key, call }, reply) in releases.iter().zip(replies) {
        if reply.is_err() {
            let (key, call) = ((*key).clone(), call.clone());
            core.watchdog.release_orphan(key, call, ends);
        }
    }
}
