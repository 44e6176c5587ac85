//! Releases what a request was granted, or may have been granted, but no thread uses.

use std::time::Duration;

use super::held::Needed;
use super::parts::Part;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::OwnerId;
use crate::lease::Terms;
use crate::request::{LostCopies, Request};
use crate::script::Call;

/// A request looks for a grant to at most this many earlier copies without a reply. A lock that an
/// even older copy acquired ends with its lease.
const MAX_OLDER_IDS: usize = 7;

/// The owner id for another copy of a request. Each copy has its own: otherwise a late copy could
/// acquire the lock again after the grant was lost, with the owner id of that grant.
pub(super) fn owner_of_next_copy(owner: &OwnerId) -> OwnerId {
    owner.newest(MAX_OLDER_IDS).with_fresh_name()
}

/// The call that releases these parts of one group.
pub(super) fn release_call(parts: &[&Part], owner: &OwnerId) -> Option<Call> {
    Call::joined(parts.iter().map(|part| part.kind.release(&part.key, owner)))
}

/// Sends a release after each of these lost copies.
fn compensate(parts: &[&Part], owner: &OwnerId, lost_copies: LostCopies) {
    if let Some(call) = release_call(parts, owner) {
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

/// A grant of some parts of one group that no thread uses. It has to be released.
pub(super) struct Unused<'a> {
    parts: List<&'a Part>,
    owner: OwnerId,
    /// When its lease is over.
    ends: Moment,
    /// Copies of the acquire that Redis may still execute.
    pub(super) lost_copies: LostCopies,
}

impl<'a> Unused<'a> {
    pub(super) fn new(parts: &[&'a Part], owner: OwnerId, ends: Moment) -> Self {
        Self {
            parts: parts.iter().copied().collect(),
            owner,
            ends,
            lost_copies: LostCopies::default(),
        }
    }

    fn request(&self) -> Option<Request<'_>> {
        let first = self.parts.first()?;
        let call = release_call(&self.parts, &self.owner)?;
        Some(Request::new(&first.core.redis, &first.key, call))
    }
}

/// Releases these grants. What gets no reply in time is released in the background. With a
/// majority, each server gets one request.
pub(super) fn release_unused(unused: Vec<Unused<'_>>, needed: Needed, budget: &CallBudget) {
    if unused.is_empty() {
        return;
    }
    let needed = match needed {
        Needed::All => Needed::All,
        Needed::Majority(_) => Needed::Majority(unused.len()),
    };
    let requests: List<Request<'_>> = unused.iter().filter_map(Unused::request).collect();
    let results = needed.request(&requests, |_| true, |_| None, budget);
    drop(requests);
    for (grant, result) in unused.into_iter().zip(results) {
        if result.is_err() || grant.lost_copies.is_ambiguous() {
            release_orphans(&grant.parts, &grant.owner, grant.ends);
        }
        compensate(&grant.parts, &grant.owner, grant.lost_copies);
    }
}
