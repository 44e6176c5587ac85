//! Checks that no thread and no lock is stuck.

use std::collections::BTreeMap;
use std::time::Duration;

use super::history::{Call, Span};
use super::{Bounds, History, HoldId, Violation, waits};

pub(super) fn check(history: &History, bounds: &Bounds) -> Vec<Violation> {
    let mut violations: Vec<Violation> = history
        .calls
        .iter()
        .filter_map(|(id, call)| stuck_thread(history, *id, call, bounds))
        .collect();
    violations.extend(stuck_locks(history, bounds));
    violations
}

/// Finds a call that exceeded its budget, not counting pauses of its process, or that had not
/// returned at the end of the run.
fn stuck_thread(history: &History, id: HoldId, call: &Call, bounds: &Bounds) -> Option<Violation> {
    let to = match call.answered {
        Some(answered) => answered,
        None if history.gone.contains_key(&id.process) => return None,
        None => history.end?,
    };
    let from = call.asked;
    let span = Span { from, to };
    let machine = &history.machine;
    let paused = machine.paused(id.process, span);
    let took = Duration::from_nanos(to.saturating_sub(from).saturating_sub(call.starved));
    let took = took.saturating_sub(paused);
    let budget = (call.budget > 0).then(|| Duration::from_millis(call.budget));
    let too_long = match budget {
        Some(budget) => took > budget + bounds.slip.max(machine.slip(id.process, span)),
        None => call.answered.is_none(),
    };
    too_long.then(|| Violation::ThreadStuck {
        call: id,
        what: call.what.clone(),
        took,
        budget,
        at: from,
    })
}

/// Finds locks that stay free in a calm while a thread waits for them.
fn stuck_locks(history: &History, bounds: &Bounds) -> Vec<Violation> {
    let mut held: BTreeMap<u32, Vec<(Span, u32)>> = BTreeMap::new();
    for hold in history.holds.values() {
        let (from, to) = (hold.since, hold.vouched.unwrap_or(hold.since));
        let held = held.entry(hold.lock).or_default();
        held.push((Span { from, to }, hold.permits));
    }
    // By locks, and by the number of permits that a thread waits for.
    let mut taken: BTreeMap<(Vec<u32>, u32), Vec<Span>> = BTreeMap::new();
    let ready = waits::ready(history, bounds);
    let mut violations = Vec::new();
    for (id, call) in &history.calls {
        let asked = match call.waits {
            None => call.asked,
            Some(_) => ready.get(id).copied().unwrap_or(u64::MAX),
        };
        let locks = match &call.together[..] {
            [] => vec![call.lock],
            several => several.to_vec(),
        };
        if call.budget > 0 || locks[0] != call.lock {
            continue;
        }
        let gone = history.gone.get(&id.process).copied();
        let to = call.answered.or(gone).unwrap_or(u64::MAX);
        let lost = locks.iter().filter_map(|lock| history.lost_lines.get(lock));
        let lost: Vec<u64> = lost.flatten().copied().collect();
        let taken = taken
            .entry((locks, call.permits))
            .or_insert_with_key(|(locks, _)| {
                let held = locks.iter().filter_map(|lock| held.get(lock)).flatten();
                let mut held: Vec<(Span, u32)> = held.copied().collect();
                held.sort_by_key(|(span, _)| span.from);
                when_taken(&held, bounds.permits.unwrap_or(1), call.permits)
            });
        let settled = nanos(bounds.idle);
        let calms = history.calms.iter().flat_map(|calm| {
            [
                (calm.from, calm.to, bounds.idle),
                (calm.from + settled, calm.to, bounds.settled),
            ]
        });
        for (calm_from, calm_to, bound) in calms {
            let (from, to) = (asked.max(calm_from), to.min(calm_to));
            // A shortcut: most waits are short.
            if Duration::from_nanos(to.saturating_sub(from)) <= bound {
                continue;
            }
            let (at, idle) = longest_gap(Span { from, to }, taken);
            let slip = history.machine.slip(id.process, Span { from, to });
            let end = at.saturating_add(nanos(idle));
            let notices = |lost: &u64| lost.saturating_add(nanos(bounds.line_noticed + slip));
            let during = |lost: &&u64| (call.asked..end).contains(*lost);
            let is_line_lost = lost.iter().filter(during).any(|lost| notices(lost) >= end);
            if idle > bound + slip && !is_line_lost {
                violations.push(Violation::LockStuck {
                    lock: call.lock,
                    waiter: *id,
                    idle,
                    at,
                });
            }
        }
    }
    violations
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// When fewer permits were free than are needed, in the order of time. A hold that begins shows
/// that the lock is not stuck, so its begin is in the list, too. `holds` is sorted by `from`.
fn when_taken(holds: &[(Span, u32)], permits: u32, needed: u32) -> Vec<Span> {
    // The ends of the holds that have not ended, and their permits.
    let mut ends: Vec<(u64, u32)> = Vec::new();
    let mut taken = Vec::new();
    for &(Span { from, to }, count) in holds {
        ends.retain(|(end, _)| *end >= from);
        ends.push((to, count));
        ends.sort_unstable();
        let mut left: u32 = ends.iter().map(|(_, count)| count).sum();
        let mut until = from;
        for (end, count) in &ends {
            if left + needed <= permits {
                break;
            }
            until = *end;
            left -= count;
        }
        taken.push(Span { from, to: until });
    }
    taken
}

/// The longest time within `span` in which the lock is free. `taken` is sorted by `from`.
fn longest_gap(span: Span, taken: &[Span]) -> (u64, Duration) {
    let (mut free_since, mut longest) = (span.from, (span.from, 0));
    for hold in taken.iter().filter(|hold| hold.to >= span.from) {
        if hold.from >= span.to {
            break;
        }
        let gap = hold.from.saturating_sub(free_since);
        if gap > longest.1 {
            longest = (free_since, gap);
        }
        free_since = free_since.max(hold.to);
    }
    let gap = span.to.saturating_sub(free_since);
    if gap > longest.1 {
        longest = (free_since, gap);
    }
    (longest.0, Duration::from_nanos(longest.1))
}
