//! Checks that a lock never has two holders, except readers, that the holders of a semaphore never
//! have more permits than there are, and that a holder notices the deletion of its key.

use std::collections::BTreeMap;
use std::time::Duration;

use super::calls::Hold;
use super::span::Span;
use super::{Bounds, History, Violation, nanos};

type Spans<'a> = Vec<(Span, &'a Hold)>;

/// Returns the violations, and how many double holds an uncertain loss explains: a failover, or a
/// clock. Not those of permits.
pub(super) fn check(history: &History, bounds: &Bounds) -> (Vec<Violation>, u64) {
    let mut by_lock: BTreeMap<u32, Spans<'_>> = BTreeMap::new();
    let mut by_process: BTreeMap<(u32, u32), Spans<'_>> = BTreeMap::new();
    for hold in history.holds.values() {
        if let Some(span) = history.vouched(hold) {
            by_lock.entry(hold.lock).or_default().push((span, hold));
        }
        // A process knows its own holds, so there even a deleted key is no excuse. It does not
        // count its permits.
        if let Some(span) = hold.confirmed().filter(|_| bounds.permits.is_none()) {
            let process = (hold.lock, hold.id.process);
            by_process.entry(process).or_default().push((span, hold));
        }
    }
    let mut violations: Vec<Violation> = by_process.into_values().flat_map(overlaps).collect();
    let by_lock = by_lock.into_values();
    if let Some(permits) = bounds.permits {
        violations.extend(by_lock.flat_map(|holds| too_many(holds, permits)));
    } else {
        violations.extend(by_lock.flat_map(overlaps).filter(is_between_processes));
    }
    let holds = history.holds.values();
    violations.extend(holds.filter_map(|hold| not_notified(history, hold, bounds)));
    let predicted = match bounds.permits {
        Some(_) => Vec::new(),
        None => predicted(history),
    };
    let late = |found| not_notified_of_loss(history, found, bounds);
    violations.extend(predicted.iter().filter_map(late));
    (violations, predicted.len() as u64)
}

/// The holds of different processes that overlap only because Redis may have lost a lock.
fn predicted(history: &History) -> Vec<Violation> {
    let mut by_lock: BTreeMap<u32, Spans<'_>> = BTreeMap::new();
    for hold in history.holds.values() {
        if let Some(span) = hold.confirmed()
            && history
                .deleted(hold)
                .is_none_or(|deletion| !deletion.is_certain)
        {
            by_lock.entry(hold.lock).or_default().push((span, hold));
        }
    }
    let found = by_lock.into_values().flat_map(overlaps);
    found.filter(is_between_processes).collect()
}

/// Finds a holder that still held its lock more than a lease after another one had acquired it.
fn not_notified_of_loss(
    history: &History,
    found: &Violation,
    bounds: &Bounds,
) -> Option<Violation> {
    let (&Violation::TwoHolders {
        lock,
        first,
        second,
        overlap,
        at,
    }
    | &Violation::ReaderBesideWriter {
        lock,
        first,
        second,
        overlap,
        at,
    }) = found
    else {
        return None;
    };
    let holds = [first, second]
        .into_iter()
        .filter_map(|id| history.holds.get(&id));
    let last = holds
        .filter_map(|hold| history.deleted(hold))
        .map(|deletion| deletion.to)
        .max()?;
    let end = at.saturating_add(nanos(overlap));
    let after = Duration::from_nanos(end.saturating_sub(at.max(last)));
    (after > bounds.longest_lease).then_some(Violation::NotNotified {
        lock,
        hold: first,
        after,
        at: last,
    })
}

fn is_between_processes(found: &Violation) -> bool {
    match found {
        Violation::TwoHolders { first, second, .. }
        | Violation::ReaderBesideWriter { first, second, .. } => first.process != second.process,
        _ => true,
    }
}

/// Finds each hold that begins before all earlier holds have ended with which it cannot be shared.
fn overlaps(mut holds: Spans<'_>) -> Vec<Violation> {
    holds.sort_by_key(|(span, _)| span.from);
    let mut violations = Vec::new();
    // The earlier holds that end last: one that reads, and one that does not.
    let mut longest: [Option<(Span, &Hold)>; 2] = [None, None];
    for (span, hold) in holds {
        for (before, other) in longest.into_iter().flatten() {
            let is_shared = hold.reads && other.reads;
            // A thread that holds the write lock can acquire the read lock.
            let is_own = (hold.reads || other.reads) && hold.id.is_in_thread_of(other.id);
            // The lock confirmed the first hold at `before.to` or later, and had granted the second
            // one by `span.from`. So the holds overlap even if both times are equal.
            if is_shared || is_own || span.from > before.to {
                continue;
            }
            let overlap = Duration::from_nanos(before.shared(span));
            let has_reader = hold.reads || other.reads;
            let holders = [other.id, hold.id];
            violations.push(Violation::of_holders(
                hold.lock, holders, has_reader, overlap, span.from,
            ));
        }
        let longest = &mut longest[usize::from(hold.reads)];
        if longest.is_none_or(|(before, _)| span.to > before.to) {
            *longest = Some((span, hold));
        }
    }
    violations
}

/// Finds each hold that begins while others that have not ended leave too few permits for it.
fn too_many(mut holds: Spans<'_>, permits: u32) -> Vec<Violation> {
    holds.sort_by_key(|(span, _)| span.from);
    let mut current: Vec<(u64, u32)> = Vec::new();
    let mut violations = Vec::new();
    for (span, hold) in holds {
        current.retain(|(end, _)| *end >= span.from);
        current.push((span.to, hold.permits));
        let taken = current.iter().map(|(_, permits)| permits).sum();
        if taken > permits {
            violations.push(Violation::TooManyPermits {
                lock: hold.lock,
                hold: hold.id,
                permits: taken,
                at: span.from,
            });
        }
    }
    violations
}

/// Finds a holder whose lock was still confirmed more than a lease after its key was deleted.
fn not_notified(history: &History, hold: &Hold, bounds: &Bounds) -> Option<Violation> {
    let deletion = history
        .deletions(hold)
        .find(|deletion| deletion.is_certain && !history.may_be_undone(hold.lock, *deletion))?;
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
