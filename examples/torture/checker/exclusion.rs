//! Never two holders at once, and no holder that is not told.

use std::collections::BTreeMap;
use std::time::Duration;

use super::history::{Hold, Span};
use super::{Bounds, History, Violation};

pub(super) fn check(history: &History, bounds: &Bounds) -> Vec<Violation> {
    let mut by_lock: BTreeMap<u32, Vec<(Span, &Hold)>> = BTreeMap::new();
    for hold in history.holds.values() {
        if let Some(span) = history.vouched(hold) {
            by_lock.entry(hold.lock).or_default().push((span, hold));
        }
    }
    let mut violations: Vec<Violation> = by_lock.into_values().flat_map(overlaps).collect();
    let holds = history.holds.values();
    violations.extend(holds.filter_map(|hold| not_notified(history, hold, bounds)));
    violations
}

/// Each hold that begins before the one that lasts longest of those before it is over.
fn overlaps(mut holds: Vec<(Span, &Hold)>) -> Vec<Violation> {
    holds.sort_by_key(|(span, _)| span.from);
    let mut violations = Vec::new();
    let mut longest: Option<(Span, &Hold)> = None;
    for (span, hold) in holds {
        if let Some((before, other)) = longest {
            // A holder was told at `before.to`, or later, what another knew at `span.from`, or
            // earlier. So one point of time in common is one too many.
            if span.from <= before.to {
                violations.push(Violation::TwoHolders {
                    lock: hold.lock,
                    first: other.id,
                    second: hold.id,
                    overlap: Duration::from_nanos(before.shared(span)),
                    at: span.from,
                });
            }
            if span.to <= before.to {
                continue;
            }
        }
        longest = Some((span, hold));
    }
    violations
}

/// A holder that saw its lock stand before its key was deleted, and again after its lease.
fn not_notified(history: &History, hold: &Hold, bounds: &Bounds) -> Option<Violation> {
    let deletion = history.deleted(hold)?;
    let after = Duration::from_nanos(hold.vouched?.saturating_sub(deletion.to));
    // Whoever got the lock while the key was deleted may hold the next one.
    let was_its_own = hold.since < deletion.from;
    (was_its_own && after > bounds.longest_lease).then_some(Violation::NotNotified {
        lock: hold.lock,
        hold: hold.id,
        after,
        at: deletion.to,
    })
}
