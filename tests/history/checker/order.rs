//! Checks that clients acquire a lock in the order of its queue or line in Redis, and keep their
//! places there.
//!
//! The log proves the order only where no fault interferes. In a calm, a client that is seen in the
//! queue at two times has kept its place between them if none of its calls began or ended
//! meanwhile. No client that was behind it acquires the lock in this time. It may begin holds on a
//! grant from before, which has ended if a third client held the lock since then, or after as many
//! holds as the client has threads, or after some time.
//!
//! In a line, these may pass it, as documented: a call that does not wait any more; a reader that
//! passes a reader; a client that was called together with another one, because several permits
//! came free; and for about two of every four seconds, clients behind one that wants several permits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::calls::Hold;
use super::history::Queue;
use super::span::Span;
use super::{Bounds, History, Violation, nanos};

/// For how much of each time a client that wants several permits keeps those behind it waiting, as
/// documented.
const KEEPS_OUT: Duration = Duration::from_millis(1900);
const OF_EACH: Duration = Duration::from_secs(4);

/// After how long a client that waits listens, so that it keeps its place, and how long its call
/// takes to return after its place was removed because it has the lock.
const LISTENS: Duration = Duration::from_millis(20);

/// The calls and holds of one lock.
#[derive(Default)]
struct Lock<'a> {
    /// In the order of their begins.
    holds: Vec<&'a Hold>,
    /// Until when holds were confirmed, and the process, in the order of time; and the first of the
    /// holds in a row that are of this process.
    confirmed: Vec<(u64, u32, usize)>,
    /// By process: its threads.
    threads: HashMap<u32, BTreeSet<u32>>,
    /// By process: when its calls began, waited no more, and returned, in the order of time.
    events: HashMap<u32, Vec<u64>>,
    /// By process: when it acquired the lock by calls that did not wait any more, or read within
    /// the write lock.
    passes: HashMap<u32, Vec<u64>>,
    /// By process and thread: its calls, in the order of their begins.
    waiting: BTreeMap<(u32, u32), Vec<Waiting>>,
    /// By process: when its rush began that never returned. The process was killed, and the last
    /// holds of the rush are not in the log.
    unlogged: HashMap<u32, u64>,
}

/// A call that waits.
#[derive(Clone, Copy)]
struct Waiting {
    span: Span,
    permits: u32,
    reads: bool,
}

/// A client that keeps its place.
#[derive(Clone)]
struct Wait {
    process: u32,
    /// Its only call that waits; `None` for one of several.
    call: Option<Waiting>,
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
    let locks = locks(history, bounds);
    let mut violations = Vec::new();
    for (number, queues) in &history.queues {
        let Some(lock) = locks.get(number) else {
            continue;
        };
        let (waits, lost) = waits(history, bounds, lock, (*number, queues));
        for wait in waits {
            violations.extend(overtaken(history, bounds, lock, &wait));
        }
        violations.extend(lost.into_iter().map(|(waiting, at)| Violation::PlaceLost {
            lock: *number,
            waiting,
            at,
        }));
    }
    violations
}

fn locks<'a>(history: &'a History, bounds: &Bounds) -> BTreeMap<u32, Lock<'a>> {
    let mut locks: BTreeMap<u32, Lock<'a>> = BTreeMap::new();
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
        // With its last request, a call that does not wait any more leaves the line.
        let ended = call.wait().map(|wait| call.asked.saturating_add(wait));
        let changes = [Some(call.asked), ended, call.answered];
        events.extend(changes.into_iter().flatten());
        let waiting = Waiting {
            span: Span {
                from: call.asked,
                to: call.answered.unwrap_or(u64::MAX),
            },
            permits: call.permits,
            reads: history.reads.contains(id),
        };
        let thread = (id.process, id.thread);
        lock.waiting.entry(thread).or_default().push(waiting);
    }
    for hold in history.holds.values() {
        let lock = locks.entry(hold.lock).or_default();
        lock.holds.push(hold);
        if hold.is_nested || history.had_ended(hold) {
            lock.passes
                .entry(hold.id.process)
                .or_default()
                .push(hold.since);
        }
        let confirmed = history
            .vouched(hold)
            .map(|span| (span.to, hold.id.process, 0));
        // Others may hold what is shared at the same time.
        let is_exclusive = !hold.reads && bounds.permits.is_none();
        lock.confirmed.extend(confirmed.filter(|_| is_exclusive));
        let events = lock.events.entry(hold.id.process).or_default();
        events.extend([hold.asked, hold.since]);
    }
    for lock in locks.values_mut() {
        lock.holds.sort_by_key(|hold| hold.since);
        lock.passes
            .values_mut()
            .for_each(|passes| passes.sort_unstable());
        lock.confirmed.sort_unstable();
        for at in 1..lock.confirmed.len() {
            let (_, before, begin) = lock.confirmed[at - 1];
            let is_same = lock.confirmed[at].1 == before;
            lock.confirmed[at].2 = if is_same { begin } else { at };
        }
        lock.events
            .values_mut()
            .for_each(|events| events.sort_unstable());
    }
    locks
}

/// The clients that keep a place in the queue of this lock during calms, and those that lost theirs
/// although they went on waiting. A client that is not subscribed keeps none: it asks from time to
/// time, and a release may move it to the end.
fn waits(
    history: &History,
    bounds: &Bounds,
    lock: &Lock<'_>,
    (number, queues): (u32, &[Queue]),
) -> (Vec<Wait>, Vec<(u32, u64)>) {
    let delivered = nanos(bounds.delivered);
    let mut waits = Vec::new();
    let mut lost = Vec::new();
    for calm in history.calms_without_pauses() {
        let from = calm.from.saturating_add(delivered);
        let begin = queues.partition_point(|queue| queue.span.from < from);
        let queues = queues[begin..].iter();
        let mut open: BTreeMap<u32, Wait> = BTreeMap::new();
        // By process: since when it has a place, if it had none before.
        let mut entered: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        let mut is_first = true;
        let mut last: Option<&Queue> = None;
        for queue in queues.take_while(|queue| queue.span.to <= calm.to) {
            let clients = queue.clients.iter();
            let clients: Vec<u32> = clients
                .filter_map(|id| history.clients.get(id).copied())
                .collect();
            let mut still_open = BTreeMap::new();
            entered.retain(|process, _| clients.contains(process));
            for process in &clients {
                let now = (!is_first).then_some(queue.span.from);
                entered.entry(*process).or_insert(now);
            }
            is_first = false;
            // Called places of a semaphore are before the others.
            if let Some(last) = last.replace(queue).filter(|_| bounds.permits.is_none()) {
                let span = Span {
                    from: last.span.from,
                    ..queue.span
                };
                let has_entered = |process: &u32| {
                    let since = entered[process];
                    since.is_none_or(|since| since + nanos(LISTENS) < span.from)
                };
                let moved = moved(history, last, &clients);
                let moved = moved.filter(|process| {
                    has_entered(process) && lock.waits_without_hold(*process, span)
                });
                lost.extend(moved.map(|process| (process, queue.span.to)));
            }
            for (process, wait) in &open {
                let listens = LISTENS + history.machine.slip(*process, wait.span);
                let is_settled = !history.gone.contains_key(process)
                    && wait.span.to > wait.span.from.saturating_add(nanos(listens));
                let since = Span {
                    from: wait.seen,
                    to: queue.span.to.saturating_add(nanos(LISTENS)),
                };
                let is_there = clients.contains(process);
                if is_settled && !is_there && lock.is_quiet(*process, since) {
                    lost.push((*process, queue.span.to));
                }
            }
            let not_subscribed: Vec<u32> = history.not_subscribed(number, queue.span).collect();
            for (at, &process) in clients.iter().enumerate() {
                let is_waiting = lock.calls(process, queue.span).next().is_some();
                let is_subscribed =
                    !history.unsubscribed.contains(&process) && !not_subscribed.contains(&process);
                if !is_subscribed || !is_waiting {
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
                let call = || lock.only_call(process, queue.span);
                let mut wait = wait.unwrap_or_else(|| Wait::begin(process, call(), queue.span));
                wait.seen_behind(&clients[..at], queue.span);
                still_open.insert(process, wait);
            }
            waits.extend(std::mem::replace(&mut open, still_open).into_values());
        }
        waits.extend(open.into_values());
    }
    (waits, lost)
}

/// The clients that are behind another one now that was behind them at the last look.
fn moved<'a>(
    history: &'a History,
    last: &'a Queue,
    clients: &'a [u32],
) -> impl Iterator<Item = u32> + 'a {
    let before = last.clients.iter();
    let before: Vec<u32> = before
        .filter_map(|id| history.clients.get(id).copied())
        .collect();
    let is_moved = move |(at, process): &(usize, &u32)| {
        // Before its place there may be another one of its process: of a client that has ended.
        let mut places = before.splitn(2, |other| other == *process);
        let (ahead, behind) = (places.next().unwrap_or_default(), places.next());
        let now_ahead = &clients[..*at];
        let mut behind = behind.unwrap_or_default().iter();
        let passes = |other: &u32| now_ahead.contains(other) && !ahead.contains(other);
        !now_ahead.contains(process) && behind.any(passes)
    };
    let kept =
        |(_, process): (usize, &u32)| (!history.unsubscribed.contains(process)).then_some(*process);
    clients.iter().enumerate().filter(is_moved).filter_map(kept)
}

impl Lock<'_> {
    /// True if a call of this process waits from the begin of `span` to its end, and none of its
    /// calls acquires the lock.
    fn waits_without_hold(&self, process: u32, span: Span) -> bool {
        let to = span.to.saturating_add(nanos(LISTENS));
        let begin = self.holds.partition_point(|hold| hold.since < span.from);
        let mut holds = self.holds[begin..]
            .iter()
            .take_while(|hold| hold.since <= to);
        let mut calls = self.calls(
            process,
            Span {
                from: to,
                to: span.from,
            },
        );
        !holds.any(|hold| hold.id.process == process) && calls.next().is_some()
    }

    /// True if certainly no call of this process began or returned in `span`.
    fn is_quiet(&self, process: u32, span: Span) -> bool {
        if self.unlogged.get(&process).is_some_and(|at| *at <= span.to) {
            return false;
        }
        let events = self.events.get(&process).map_or(&[][..], Vec::as_slice);
        let next = events.partition_point(|at| *at < span.from);
        events.get(next).is_none_or(|at| *at > span.to)
    }

    /// The last call of each thread of this process, if it waits in `span`.
    fn calls(&self, process: u32, span: Span) -> impl Iterator<Item = &Waiting> {
        let threads = self.waiting.range((process, 0)..=(process, u32::MAX));
        threads.filter_map(move |(_, calls)| {
            let begun = calls.partition_point(|call| call.span.from <= span.to);
            let last = calls[..begun].last()?;
            (last.span.to >= span.from).then_some(last)
        })
    }

    /// The only call of this process that waits in `span`.
    fn only_call(&self, process: u32, span: Span) -> Option<Waiting> {
        let mut calls = self.calls(process, span);
        let call = calls.next()?;
        calls.next().is_none().then_some(*call)
    }

    /// True if the hold may be on a grant of a call that may pass others.
    fn passes_before(&self, hold: &Hold, reuse: u64) -> bool {
        let passes = self.passes.get(&hold.id.process);
        let passes = passes.map_or(&[][..], Vec::as_slice);
        let begun = passes.partition_point(|at| *at <= hold.since);
        let last = passes[..begun].last();
        last.is_some_and(|at| at.saturating_add(reuse) >= hold.asked)
    }

    /// True if another process than this one certainly held the lock after `from` and before `to`.
    fn is_held_by_another(&self, process: u32, from: u64, to: u64) -> bool {
        let end = self.confirmed.partition_point(|(at, ..)| *at < to);
        let Some((_, holder, begin)) = end.checked_sub(1).map(|last| self.confirmed[last]) else {
            return false;
        };
        // Those from `begin` to the last are of one process.
        let other = if holder == process { begin } else { end };
        other > 0 && self.confirmed[other - 1].0 > from
    }
}

impl Wait {
    fn begin(process: u32, call: Option<Waiting>, seen: Span) -> Self {
        let (from, to) = (seen.to, seen.to);
        Self {
            process,
            call,
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

/// The longest part of each [`OF_EACH`] that contains none of these times.
fn longest_pause(times: impl Iterator<Item = u64>) -> u64 {
    let mut times: Vec<u64> = times.map(|at| at % nanos(OF_EACH)).collect();
    times.sort_unstable();
    times.extend(times.first().map(|first| first + nanos(OF_EACH)));
    let pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
    pauses.max().unwrap_or(nanos(OF_EACH))
}

/// Finds a hold that overtook this wait.
fn overtaken(
    history: &History,
    bounds: &Bounds,
    lock: &Lock<'_>,
    wait: &Wait,
) -> Option<Violation> {
    let slip = bounds.reuse + bounds.slip + history.machine.slip(wait.process, wait.span);
    let slip = nanos(slip);
    if history.shares && wait.call.is_none() {
        return None;
    }
    let begin = (lock.holds).partition_point(|hold| hold.since <= wait.span.from);
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
        let has_turn = *late < lock.threads.get(&process).map_or(1, BTreeSet::len);
        let may_pass = wait.call.is_some_and(|call| call.reads && hold.reads)
            || lock.passes_before(hold, slip)
            || (wait.call.filter(|_| bounds.permits.is_some()))
                .is_some_and(|call| call.span.to <= hold.since + nanos(LISTENS));
        !may_pass && (is_late && !has_turn || is_newer())
    };
    let mut overtaking = lock.holds[begin..]
        .iter()
        .take_while(|hold| hold.since < wait.span.to)
        .filter(|hold| overtakes(hold));
    let hold = match wait.call.is_some_and(|call| call.permits > 1) {
        false => overtaking.next(),
        true => {
            let all: Vec<&&Hold> = overtaking.collect();
            // The clock of the server decides, which may be faster or slower.
            let skew = slip + (wait.span.to - wait.span.from) / 50;
            let longest = longest_pause(all.iter().map(|hold| hold.since));
            all.last()
                .filter(|_| longest + skew < nanos(KEEPS_OUT))
                .copied()
        }
    }?;
    Some(Violation::Overtaken {
        lock: hold.lock,
        waiting: wait.process,
        hold: hold.id,
        at: hold.since,
    })
}
