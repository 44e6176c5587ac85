//! Checks that a lock never has two holders, and that a holder notices the deletion of its key.

use std::collections::BTreeMap;
use std::time::Duration;

use super::history::{Hold, Span};
use super::{Bounds, History, Violation};

pub(super) fn check(history: &History, bounds: &Bounds) -> Vec<Violation> {
    let mut by_lock: BTreeMap<u32, Vec<(Span, &Hold)>> = BTreeMap::new();
    let mut by_process: BTreeMap<(u32, u32), Vec<(Span, &Hold)>> = BTreeMap::new();
    for hold in history.holds.values() {
        if let Some(span) = history.vouched(hold) {
            by_lock.entry(hold.lock).or_default().push((span, hold));
        }
        // A process knows its own holds, so there even a deleted key is no excuse.
        if let Some(span) = hold.confirmed() {
            let process = (hold.lock, hold.id.process);
            by_process.entry(process).or_default().push((span, hold));
        }
    }
    let mut violations: Vec<Violation> = by_process.into_values().flat_map(overlaps).collect();
    let between = |found: &Violation| match found {
        Violation::TwoHolders { first, second, .. } => first.process != second.process,
        _ => true,
    };
    violations.extend(by_lock.into_values().flat_map(overlaps).filter(between));
    let holds = history.holds.values();
    violations.extend(holds.filter_map(|hold| not_notified(history, hold, bounds)));
    violations
}

/// Finds each hold that begins before all earlier holds have ended.
fn overlaps(mut holds: Vec<(Span, &Hold)>) -> Vec<Violation> {
    holds.sort_by_key(|(span, _)| span.from);
    let mut violations = Vec::new();
    let mut longest: Option<(Span, &Hold)> = None;
    for (span, hold) in holds {
        if let Some((before, other)) = longest {
            // The lock confirmed the first hold at `before.to` or later, and had granted the second
            // one by `span.from`. So the holds overlap even if both times are equal.
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

/// Finds a holder whose lock was still confirmed more than a lease after its key was deleted.
fn not_notified(history: &History, hold: &Hold, bounds: &Bounds) -> Option<Violation> {
    let deletion = history.deleted(hold)?;
    let after = Duration::from_nanos(hold.vouched?.saturating_sub(deletion.to));
    // A grant during the deletion may be a grant of the next key, except if its token is older.
    let is_older = hold.token.is_some() && deletion.token.is_some();
    let was_deleted = is_older || hold.since < deletion.from;
    (was_deleted && after > bounds.longest_lease).then_some(Violation::NotNotified {
        lock: hold.lock,
        hold: hold.id,
        after,
        at: deletion.to,
    })
}
