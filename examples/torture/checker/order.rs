//! Checks that clients acquire a fair lock in the order of the queue in Redis.
//!
//! The log proves the order only where no fault interferes. In a calm, a client that is seen in the
//! queue at two times has kept its place between them if none of its calls began or ended
//! meanwhile. No client that was behind it acquires the lock in this time. It may begin holds on a
//! grant from before, which has ended if a third client held the lock since then, or after as many
//! holds as the client has threads, or after some time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::history::{Hold, Queue, Span};
use super::{Bounds, History, Violation};

/// The calls and holds of one lock.
#[derive(Default)]
struct Lock<'a> {
    /// In the order of their begins.
    holds: Vec<&'a Hold>,
    /// Until when holds were confirmed, and the process, in the order of time.
    confirmed: Vec<(u64, u32)>,
    /// By process: its threads.
    threads: HashMap<u32, BTreeSet<u32>>,
    /// By process: when its calls began and returned, in the order of time.
    events: HashMap<u32, Vec<u64>>,
    /// By process: when its rush began that never returned. The process was killed, and the last
    /// holds of the rush are not in the log.
    unlogged: HashMap<u32, u64>,
}

/// A client that keeps its place.
#[derive(Clone)]
struct Wait {
    process: u32,
    /// Before it was seen for the first time.
    seen: u64,
    /// From the first time to the last.
    span: Span,
    /// The clients that were before it, and since when they are not; `u64::MAX` if they are.
    before: BTreeMap<u32, u64>,
}

pub(super) fn check(history: &History, bounds: &Bounds) -> Vec<Violation> {
    if history.queues.is_empty() {
        return Vec::new();
    }
    let locks = locks(history);
    let mut violations = Vec::new();
    for (number, queues) in &history.queues {
        let Some(lock) = locks.get(number) else {
            continue;
        };
        for wait in waits(history, bounds, lock, queues) {
            violations.extend(overtaken(history, bounds, lock, &wait));
        }
    }
    violations
}

fn locks(history: &History) -> BTreeMap<u32, Lock<'_>> {
    let mut locks: BTreeMap<u32, Lock<'_>> = BTreeMap::new();
    for (id, call) in &history.calls {
        let lock = locks.entry(call.lock).or_default();
        if call.answered.is_none() && call.what == "rush" {
            let since = lock.unlogged.entry(id.process).or_insert(call.asked);
            *since = call.asked.min(*since);
        }
        lock.threads
            .entry(id.process)
            .or_default()
            .insert(id.thread);
        let events = lock.events.entry(id.process).or_default();
        events.extend([Some(call.asked), call.answered].into_iter().flatten());
    }
    for hold in history.holds.values() {
        let lock = locks.entry(hold.lock).or_default();
        lock.holds.push(hold);
        let confirmed = history.vouched(hold).map(|span| (span.to, hold.id.process));
        lock.confirmed.extend(confirmed);
        let events = lock.events.entry(hold.id.process).or_default();
        events.extend([hold.asked, hold.since]);
    }
    for lock in locks.values_mut() {
        lock.holds.sort_by_key(|hold| hold.since);
        lock.confirmed.sort_unstable();
        lock.events
            .values_mut()
            .for_each(|events| events.sort_unstable());
    }
    locks
}

/// The clients that keep a place in the queue of this lock during calms. A client that may not
/// subscribe does not: a release may move it to the end.
fn waits(history: &History, bounds: &Bounds, lock: &Lock<'_>, queues: &[Queue]) -> Vec<Wait> {
    let delivered = u64::try_from(bounds.delivered.as_nanos()).unwrap_or(u64::MAX);
    let mut waits = Vec::new();
    for calm in &history.calms {
        let from = calm.from.saturating_add(delivered);
        let begin = queues.partition_point(|queue| queue.span.from < from);
        let queues = queues[begin..].iter();
        let mut open: BTreeMap<u32, Wait> = BTreeMap::new();
        for queue in queues.take_while(|queue| queue.span.to <= calm.to) {
            let clients = queue.clients.iter();
            let clients: Vec<u32> = clients
                .filter_map(|id| history.clients.get(id).copied())
                .collect();
            let mut still_open = BTreeMap::new();
            for (at, &process) in clients.iter().enumerate() {
                if history.unsubscribed.contains(&process) {
                    continue;
                }
                let wait = open.get(&process).filter(|wait| {
                    lock.is_quiet(
                        process,
                        Span {
                            from: wait.seen,
                            ..queue.span
                        },
                    )
                });
                let wait = match wait {
                    Some(_) => open.remove(&process),
                    None => None,
                };
                let mut wait = wait.unwrap_or_else(|| Wait::begin(process, queue.span));
                wait.seen_behind(&clients[..at], queue.span);
                still_open.insert(process, wait);
            }
            waits.extend(std::mem::replace(&mut open, still_open).into_values());
        }
        waits.extend(open.into_values());
    }
    waits
}

impl Lock<'_> {
    /// True if certainly no call of this process began or returned in `span`.
    fn is_quiet(&self, process: u32, span: Span) -> bool {
        if self.unlogged.get(&process).is_some_and(|at| *at <= span.to) {
            return false;
        }
        let events = self.events.get(&process).map_or(&[][..], Vec::as_slice);
        let next = events.partition_point(|at| *at < span.from);
        events.get(next).is_none_or(|at| *at > span.to)
    }

    /// True if another process than this one certainly held the lock after `from` and before `to`.
    fn is_held_by_another(&self, process: u32, from: u64, to: u64) -> bool {
        let begin = self.confirmed.partition_point(|(at, _)| *at <= from);
        let mut later = self.confirmed[begin..].iter();
        later
            .by_ref()
            .take_while(|(at, _)| *at < to)
            .any(|(_, holder)| *holder != process)
    }
}

impl Wait {
    fn begin(process: u32, seen: Span) -> Self {
        let (from, to) = (seen.to, seen.to);
        Self {
            process,
            seen: seen.from,
            span: Span { from, to },
            before: BTreeMap::new(),
        }
    }

    fn seen_behind(&mut self, clients: &[u32], seen: Span) {
        self.span.to = self.span.to.max(seen.from);
        for (client, since) in &mut self.before {
            if *since == u64::MAX && !clients.contains(client) {
                *since = seen.to;
            }
        }
        self.before
            .extend(clients.iter().map(|client| (*client, u64::MAX)));
    }
}

/// Finds the first hold that overtook this wait.
fn overtaken(
    history: &History,
    bounds: &Bounds,
    lock: &Lock<'_>,
    wait: &Wait,
) -> Option<Violation> {
    let slip = bounds.reuse + bounds.slip + history.machine.slip(wait.process, wait.span);
    let slip = u64::try_from(slip.as_nanos()).unwrap_or(u64::MAX);
    let begin = (lock.holds).partition_point(|hold| hold.since <= wait.span.from);
    let mut holds = lock.holds[begin..].iter();
    // By process: how many holds began on its grant from before.
    let mut late: HashMap<u32, usize> = HashMap::new();
    let mut overtakes = |hold: &&&Hold| {
        let process = hold.id.process;
        let behind = wait.before.get(&process).copied();
        let behind = behind.unwrap_or(wait.span.from);
        // Another client held the lock since then, so this grant is newer than that.
        let is_newer = || lock.is_held_by_another(process, behind, hold.since);
        if process == wait.process || hold.since <= behind {
            return false;
        }
        let is_late = hold.asked > behind.saturating_add(slip);
        let late = late.entry(process).or_default();
        *late += usize::from(is_late);
        is_late && *late >= lock.threads.get(&process).map_or(1, BTreeSet::len) || is_newer()
    };
    let hold = holds
        .by_ref()
        .take_while(|hold| hold.since < wait.span.to)
        .find(&mut overtakes)?;
    Some(Violation::Overtaken {
        lock: hold.lock,
        waiting: wait.process,
        hold: hold.id,
        at: hold.since,
    })
}
