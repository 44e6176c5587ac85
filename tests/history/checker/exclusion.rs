//! Checks that a lock never has two holders, except readers, that the holders of a semaphore never
//! have more permits than there are, and that a holder notices the deletion of its key.

use std::collections::BTreeMap;
use std::time::Duration;

use super::calls::Hold;
use super::span::Span;
use super::{Bounds, History, HoldId, Violation, nanos};

type Spans<'a> = Vec<(Span, &'a Hold)>;

/// Two holds for the same time, which is not allowed even if one of them reads.
pub(super) struct Overlap {
    pub lock: u32,
    pub holders: [HoldId; 2],
    pub has_reader: bool,
    pub time: Duration,
    pub at: u64,
}

impl Overlap {
    pub fn violation(&self) -> Violation {
        let (lock, [first, second], time) = (self.lock, self.holders, self.time);
        let kind = match self.has_reader {
            true => "reader beside a writer",
            false => "two holders",
        };
        let what = format!("lock {lock} was held by {first} and by {second} for {time:?}");
        Violation::new(kind, self.at, what)
    }
}

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
    let by_process = by_process.into_values().flat_map(overlaps);
    let mut violations: Vec<Violation> = by_process.map(|found| found.violation()).collect();
    let by_lock = by_lock.into_values();
    if let Some(permits) = bounds.permits {
        violations.extend(by_lock.flat_map(|holds| too_many(holds, permits)));
    } else {
        let found = by_lock.flat_map(overlaps).filter(is_between_processes);
        violations.extend(found.map(|found| found.violation()));
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
fn predicted(history: &History) -> Vec<Overlap> {
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
fn not_notified_of_loss(history: &History, found: &Overlap, bounds: &Bounds) -> Option<Violation> {
    let holds = found.holders.iter().filter_map(|id| history.holds.get(id));
    let last = holds
        .filter_map(|hold| history.deleted(hold))
        .map(|deletion| deletion.to)
        .max()?;
    let end = found.at.saturating_add(nanos(found.time));
    let after = Duration::from_nanos(end.saturating_sub(found.at.max(last)));
    let late = || still_held(found.lock, found.holders[0], after, last);
    (after > bounds.longest_lease).then(late)
}

fn still_held(lock: u32, hold: HoldId, after: Duration, at: u64) -> Violation {
    let what = format!("{hold} still held lock {lock} {after:?} after its key was deleted");
    Violation::new("holder not notified", at, what)
}

fn is_between_processes(found: &Overlap) -> bool {
    let [first, second] = found.holders;
    first.process != second.process
}

/// Finds each hold that begins before all earlier holds have ended with which it cannot be shared.
fn overlaps(mut holds: Spans<'_>) -> Vec<Overlap> {
    holds.sort_by_key(|(span, _)| span.from);
    let mut found = Vec::new();
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
            found.push(Overlap {
                lock: hold.lock,
                holders: [other.id, hold.id],
                has_reader: hold.reads || other.reads,
                time: Duration::from_nanos(before.shared(span)),
                at: span.from,
            });
        }
        let longest = &mut longest[usize::from(hold.reads)];
        if longest.is_none_or(|(before, _)| span.to > before.to) {
            *longest = Some((span, hold));
        }
    }
    found
}

/// Finds each hold that begins while others that have not ended leave too few permits for it.
fn too_many(mut holds: Spans<'_>, permits: u32) -> Vec<Violation> {
    holds.sort_by_key(|(span, _)| span.from);
    let mut current: Vec<(u64, u32)> = Vec::new();
    let mut violations = Vec::new();
    for (span, hold) in holds {
        current.retain(|(end, _)| *end >= span.from);
        current.push((span.to, hold.permits));
        let taken: u32 = current.iter().map(|(_, permits)| permits).sum();
        if taken > permits {
            let what = format!(
                "{taken} permits of semaphore {} were taken when {} had acquired it",
                hold.lock, hold.id
            );
            violations.push(Violation::new("too many permits", span.from, what));
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
    let late = || still_held(hold.lock, hold.id, after, deletion.to);
    (was_deleted && after > bounds.longest_lease).then(late)
}
