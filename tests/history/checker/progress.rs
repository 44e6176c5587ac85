//! Checks that no thread and no lock is stuck.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::calls::{Call, Hold};
use super::span::Span;
use super::{Bounds, History, HoldId, NOTICED_BY_ALL, Violation, nanos, waits};

/// How long a client that was called may take to answer, as documented.
pub(super) const UNANSWERED: Duration = Duration::from_millis(500);

/// For how much of its wait a client that wants to read may wait for dead writers, as documented.
const DEAD_WRITERS: Duration = Duration::from_secs(3);

/// After how long clients look after a line if no living client released the lock, as documented.
const LOOK: Duration = Duration::from_secs(2);

/// For how long a call for several locks keeps one of them at first, about, as documented.
const PATIENCE: Duration = Duration::from_millis(1400);

/// How many clients at the front of a line look after it often, as documented.
const NEAR: usize = 10;

/// How often each other process may acquire a lock while a thread waits for it. One of a client
/// that may not subscribe waits for three turns of the others, as documented, and for the other
/// threads of its client.
const MOST_TURNS: usize = 12;

pub(super) fn check(history: &History, bounds: &Bounds) -> Vec<Violation> {
    let mut violations: Vec<Violation> = history
        .calls
        .iter()
        .filter_map(|(id, call)| stuck_thread(history, *id, call, bounds))
        .collect();
    violations.extend(stuck_locks(history, bounds));
    if bounds.permits.is_none() && !history.shares {
        violations.extend(starved_threads(history, bounds));
    }
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
        Some(budget) => {
            let budget = match of_holder(call) && is_settled(history, span, bounds) {
                true => budget.min(bounds.answered),
                false => budget,
            };
            took > budget + bounds.slip.max(machine.slip(id.process, span))
        }
        None => call.answered.is_none(),
    };
    too_long.then(|| {
        let what = match budget {
            Some(budget) => format!("took {took:?}, its budget was {budget:?}"),
            None => format!("has not returned after {took:?}"),
        };
        Violation::new("thread stuck", from, format!("{id}: {} {what}", call.what))
    })
}

/// True if the call waits for replies of Redis only.
fn of_holder(call: &Call) -> bool {
    ["extend", "query", "drop", "unlock"].contains(&&*call.what)
}

/// True if a calm had lasted for some time when this began, and lasted until its end.
fn is_settled(history: &History, span: Span, bounds: &Bounds) -> bool {
    let settled = nanos(bounds.idle);
    let mut calms = history.calms.iter();
    calms.any(|calm| calm.from.saturating_add(settled) <= span.from && span.to <= calm.to)
}

/// Finds calls that wait in the order of a queue in a calm, while other processes acquire the lock
/// very often in turn.
fn starved_threads(history: &History, bounds: &Bounds) -> Vec<Violation> {
    let mut holds: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
    for hold in history.holds.values() {
        let of_lock = holds.entry(hold.lock).or_default();
        of_lock.push((hold.since, hold.id.process));
    }
    holds.values_mut().for_each(|holds| holds.sort_unstable());
    let calms = history.calms_without_pauses();
    let starved = |(id, call): (&HoldId, &Call)| {
        // A rush is a call that acquires the lock often.
        let is_in_order = history.queues.contains_key(&call.lock);
        let is_of_one = call.together.is_empty() && call.waits.is_none();
        let waits = is_in_order && is_of_one && call.what != "rush";
        let holds = holds.get(&call.lock).filter(|_| waits)?;
        let gone = history.gone.get(&id.process).copied();
        let to = call.answered.or(gone).unwrap_or(u64::MAX);
        calms.iter().find_map(|calm| {
            let from = call.asked.max(calm.from.saturating_add(nanos(bounds.idle)));
            let to = to.min(calm.to);
            let within = |at: u64| holds.partition_point(|(since, _)| *since < at);
            let others = holds.get(within(from)..within(to))?;
            let others: Vec<u32> = others.iter().map(|(_, process)| *process).collect();
            let turns = others.chunk_by(u32::eq).count();
            let processes = others.iter().collect::<BTreeSet<_>>().len();
            (turns > MOST_TURNS * processes).then(|| {
                let what = format!("{id} waited while other processes had {turns} turns");
                Violation::new("starved", from, what)
            })
        })
    };
    history.calls.iter().filter_map(starved).collect()
}

/// Finds locks that stay free in a calm while a thread waits for them.
fn stuck_locks(history: &History, bounds: &Bounds) -> Vec<Violation> {
    let mut held: BTreeMap<u32, Vec<(Span, u32)>> = BTreeMap::new();
    let mut last = BTreeMap::new();
    for hold in history.holds.values() {
        let (from, to) = (hold.since, hold.vouched.unwrap_or(hold.since));
        last.insert((hold.lock, to), hold);
        let held = held.entry(hold.lock).or_default();
        held.push((Span { from, to }, hold.permits));
    }
    let writers = writers(history);
    // By locks, and by the number of permits that a thread waits for; 0: it wants to read.
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
        // Readers wait only while a thread holds the write lock or waits for it.
        let reads = history.reads.contains(id);
        let permits = if reads { 0 } else { call.permits };
        let taken = taken
            .entry((locks.clone(), permits))
            .or_insert_with_key(|(locks, _)| match reads {
                true => writers.get(&locks[0]).cloned().unwrap_or_default(),
                false => {
                    let held = locks.iter().filter_map(|lock| held.get(lock)).flatten();
                    let mut held: Vec<(Span, u32)> = held.copied().collect();
                    held.sort_by_key(|(span, _)| span.from);
                    when_taken(&held, bounds.permits.unwrap_or(1), permits)
                }
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
            for gap in gaps(Span { from, to }, taken) {
                let idle = Duration::from_nanos(gap.to - gap.from);
                // A shortcut: what follows reads all calls, and most gaps are short.
                if idle <= bound {
                    continue;
                }
                let mut before = last.range((call.lock, 0)..=(call.lock, gap.from));
                let holder = before.next_back().map(|(_, hold)| *hold);
                let Some(delay) = delay_by_others(history, bounds, *id, (call.lock, gap), holder)
                else {
                    continue;
                };
                let kept = kept_by_others(history, *id, &locks, gap);
                let slip = history.machine.slip(id.process, gap) + delay + kept;
                let waits_for_dead = |(other, writer): (&HoldId, &Call)| {
                    let is_gone = history
                        .gone
                        .get(&other.process)
                        .is_some_and(|at| *at < gap.to);
                    let writes = writer.lock == call.lock && !history.reads.contains(other);
                    is_gone && writes && writer.answered.is_none()
                };
                let most = call.asked + nanos(DEAD_WRITERS + slip);
                if reads && gap.to < most && history.calls.iter().any(waits_for_dead) {
                    continue;
                }
                let is_line_lost = || {
                    let during = |lost: &&u64| (call.asked..gap.to).contains(*lost);
                    let Some(lost) = lost.iter().filter(during).max() else {
                        return false;
                    };
                    let most = match may_be_far_behind(history, *id, call, *lost) {
                        true => bounds.line_noticed.max(NOTICED_BY_ALL),
                        false => bounds.line_noticed,
                    };
                    lost.saturating_add(nanos(most + slip)) >= gap.to
                };
                if idle > bound + slip && !is_line_lost() {
                    let what = format!(
                        "lock {} was free for {idle:?} while {id} waited for it",
                        call.lock
                    );
                    violations.push(Violation::new("lock stuck", gap.from, what));
                    break;
                }
            }
        }
    }
    violations
}

/// For how long calls that want several locks may keep one of these, together, while they wait for
/// others: for some time each, and for twice as long each time they have given it back.
fn kept_by_others(history: &History, waiter: HoldId, locks: &[u32], gap: Span) -> Duration {
    let keeps = |(id, call): &(&HoldId, &Call)| {
        let wants = call.together.iter().any(|lock| locks.contains(lock));
        let is_begun = call.asked < gap.to && call.answered.is_none_or(|at| at > gap.from);
        **id != waiter && wants && is_begun && call.together[0] == call.lock
    };
    let kept = history.calls.iter().filter(keeps).map(|(_, call)| {
        let waited = Duration::from_nanos(gap.from.saturating_sub(call.asked));
        let to = call.answered.map_or(gap.to, |at| at.min(gap.to));
        let within = Duration::from_nanos(to.saturating_sub(call.asked.max(gap.from)));
        within.min(PATIENCE + waited)
    });
    kept.sum()
}

/// True if more than [`NEAR`] clients may have been before the call in its line when the line was
/// lost: they wanted the lock while the call waited.
fn may_be_far_behind(history: &History, waiter: HoldId, call: &Call, lost: u64) -> bool {
    let others = history.calls.iter().filter(|(id, other)| {
        let is_before = id.process != waiter.process && other.lock == call.lock;
        is_before && other.asked < lost && other.answered.is_none_or(|at| at > call.asked)
    });
    let others: BTreeSet<u32> = others.map(|(id, _)| id.process).collect();
    others.len() > NEAR
}

/// How much longer a lock may stay free because clients that were called do not answer, or because
/// its last holder did not release it: its lease has ended. `None` if that is not known: the
/// waiting process is paused.
fn delay_by_others(
    history: &History,
    bounds: &Bounds,
    waiter: HoldId,
    (lock, gap): (u32, Span),
    holder: Option<&Hold>,
) -> Option<Duration> {
    let machine = &history.machine;
    if machine.paused(waiter.process, gap) > Duration::ZERO {
        return None;
    }
    let needs_several = |(id, call): (&HoldId, &Call)| {
        let ends_after = call.answered.is_none_or(|at| at >= gap.from);
        *id != waiter && call.permits > 1 && call.asked <= gap.to && ends_after
    };
    let keeps_out = match bounds.keeps_out {
        Duration::ZERO => Duration::ZERO,
        time => time * u32::from(history.calls.iter().any(needs_several)),
    };
    let pauses: Vec<(u32, Span)> = machine.pauses_of_others(waiter.process, gap).collect();
    // The others may be called that waited then, or shortly before.
    let may_be_called = |process: u32| {
        let from = gap.from.saturating_sub(nanos(UNANSWERED));
        history.calls.iter().any(|(id, call)| {
            let is_over = call.answered.is_some_and(|at| at < from);
            id.process == process && call.asked < gap.to && !is_over
        })
    };
    let paused = pauses.iter().filter(|(process, _)| may_be_called(*process));
    let silent = paused.count() + history.silent_without_call(lock, gap);
    // One is called, then two together, then four: of 2^n clients, one answers in call n + 1. One
    // more may have been called before the lock came free.
    let silent = UNANSWERED * (1 + (silent + 1).ilog2()).min(silent as u32);
    if pauses.is_empty() {
        let call = holder.and_then(|hold| history.calls.get(&hold.id));
        let is_released = holder.is_none_or(|hold| hold.is_released);
        let may_have_ended = !is_released && call.is_some_and(Call::has_limited_lease);
        // Redisson calls no client. Those that listen to it may be silent.
        let is_uncalled = silent > Duration::ZERO && call.is_some_and(Call::is_of_redisson);
        let look = LOOK * u32::from(may_have_ended || is_uncalled);
        return Some(silent + look + keeps_out);
    }
    let silent = silent + keeps_out;
    // Before its pause, a process can get the lock, or keep it for its threads.
    let begins = |(_, pause): &(u32, Span)| pause.from + nanos(bounds.slip) > gap.from;
    let holder = holder.filter(|hold| hold.vouched.unwrap_or(hold.since) == gap.from);
    let is_released = holder.is_some_and(|hold| hold.is_released);
    let is_paused = holder.is_none_or(|hold| machine.paused(hold.id.process, gap) > Duration::ZERO);
    Some(
        match is_released && !is_paused && !pauses.iter().any(begins) {
            true => silent,
            false => silent + bounds.longest_lease + LOOK,
        },
    )
}

/// By lock: when writers hold it or wait for it, in the order of time. Meanwhile readers may have
/// to wait.
fn writers(history: &History) -> BTreeMap<u32, Vec<Span>> {
    let mut writers: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
    if history.reads.is_empty() {
        return writers;
    }
    for hold in history.holds.values().filter(|hold| !hold.reads) {
        let (from, to) = (hold.asked, hold.vouched.unwrap_or(hold.since));
        writers
            .entry(hold.lock)
            .or_default()
            .push(Span { from, to });
    }
    for (id, call) in &history.calls {
        let gone = history.gone.get(&id.process).copied();
        let (from, to) = (call.asked, call.answered.or(gone).unwrap_or(u64::MAX));
        if !history.reads.contains(id) {
            writers
                .entry(call.lock)
                .or_default()
                .push(Span { from, to });
        }
    }
    for spans in writers.values_mut() {
        spans.sort_by_key(|span| span.from);
    }
    writers
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

/// When the lock is free within `span`. `taken` is sorted by `from`.
fn gaps(span: Span, taken: &[Span]) -> Vec<Span> {
    let (mut free_since, mut gaps) = (span.from, Vec::new());
    for hold in taken.iter().filter(|hold| hold.to >= span.from) {
        if hold.from >= span.to {
            break;
        }
        if hold.from > free_since {
            let (from, to) = (free_since, hold.from);
            gaps.push(Span { from, to });
        }
        free_since = free_since.max(hold.to);
    }
    if span.to > free_since {
        let (from, to) = (free_since, span.to);
        gaps.push(Span { from, to });
    }
    gaps
}
