//! Grants and holds for unit tests.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::grant::{Grant, Granted, Hold, Turns};
use super::{LocalQueue, LockId};
use crate::base::{HolderId, LockKey, Moment, OwnerId};
use crate::lease::{Renewals, Terms};
use crate::protocol::{FENCED, Kind, PLAIN, READ, WRITE};

pub(super) const LEASE: u64 = 3000;

pub(super) fn terms(millis: u64, renewals: Renewals) -> Terms {
    Terms { millis, renewals }
}

pub(super) fn renewed() -> Terms {
    terms(LEASE, Renewals::Unlimited)
}

pub(super) fn lock(name: &str) -> LockId {
    LockId::new(1, &LockKey::new("", name))
}

pub(super) fn millis_ago(millis: u64) -> Moment {
    Moment::now().before(Duration::from_millis(millis))
}

/// A grant of the lock with this name, which was requested at `asked`.
pub(super) fn grant(
    queue: &Arc<LocalQueue>,
    name: &str,
    terms: Terms,
    asked: Moment,
    tokens: Range<u64>,
) -> Arc<Grant> {
    let kind: &'static Kind = if tokens.is_empty() { &PLAIN } else { &FENCED };
    grant_of(queue, (name, kind), granted(terms, asked, tokens))
}

/// A grant of the lock `k` that was adopted.
pub(super) fn adopted_grant(queue: &Arc<LocalQueue>, terms: Terms, asked: Moment) -> Arc<Grant> {
    let mut granted = granted(terms, asked, 0..0);
    granted.turns = Turns::Adopted;
    granted.replied = Moment::now();
    grant_of(queue, ("k", &PLAIN), granted)
}

/// A grant of the read lock `k`.
pub(super) fn read_grant(queue: &Arc<LocalQueue>, terms: Terms, asked: Moment) -> Arc<Grant> {
    grant_of(queue, ("k", &READ), granted(terms, asked, 0..0))
}

/// A grant of the write lock `k`.
pub(super) fn write_grant(queue: &Arc<LocalQueue>, terms: Terms, asked: Moment) -> Arc<Grant> {
    grant_of(queue, ("k", &WRITE), granted(terms, asked, 0..0))
}

fn granted(terms: Terms, asked: Moment, tokens: Range<u64>) -> Granted {
    Granted {
        owner: OwnerId::new("client"),
        asked,
        replied: asked,
        terms,
        lease_ends: asked.after(terms.length()),
        tokens,
        turns: Turns::InSlice,
    }
}

fn grant_of(
    queue: &Arc<LocalQueue>,
    (name, kind): (&str, &'static Kind),
    granted: Granted,
) -> Arc<Grant> {
    let key = LockKey::new("", name);
    let queue = Arc::downgrade(queue);
    Grant::new(lock(name), key, kind, granted, queue, Arc::default())
}

/// A new hold of `holder` on the lock `k`, with a renewed lease.
pub(crate) fn hold(queue: &Arc<LocalQueue>, holder: HolderId) -> Arc<Hold> {
    grant(queue, "k", renewed(), Moment::now(), 0..0).first_hold(holder)
}
