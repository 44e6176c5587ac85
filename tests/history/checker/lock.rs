//! The calls and holds of one lock, by process and in the order of time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::calls::Hold;
use super::span::Span;
use super::{Bounds, History, nanos};

/// After how long a client that waits listens, so that it keeps its place.
pub const LISTENS: Duration = Duration::from_millis(20);

/// How long a call takes to return after its place was removed because it has the lock. The
/// simulation may let all other threads run first.
pub const RETURNS: Duration = Duration::from_millis(60);

/// The calls and holds of one lock.
#[derive(Default)]
pub struct Lock<'a> {
    /// In the order of their begins.
    pub holds: Vec<&'a Hold>,
    /// Until when holds were confirmed, and the process, in the order of time; and the first of the
    /// holds in a row that are of this process.
    confirmed: Vec<(u64, u32, usize)>,
    /// By process: its threads.
    pub threads: HashMap<u32, BTreeSet<u32>>,
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
pub struct Waiting {
    pub span: Span,
    pub permits: u32,
    pub reads: bool,
}

/// The calls and holds of each lock, by its number.
pub fn locks<'a>(history: &'a History, bounds: &Bounds) -> BTreeMap<u32, Lock<'a>> {
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

impl Lock<'_> {
    /// True if a call of this process waits from the begin of `span` to its end, and none of its
    /// calls acquires the lock.
    pub fn waits_without_hold(&self, process: u32, span: Span) -> bool {
        let to = span.to.saturating_add(nanos(RETURNS));
        if self.has_unlogged_holds(process, to) {
            return false;
        }
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
    pub fn is_quiet(&self, process: u32, span: Span) -> bool {
        if self.has_unlogged_holds(process, span.to) {
            return false;
        }
        let events = self.events.get(&process).map_or(&[][..], Vec::as_slice);
        let next = events.partition_point(|at| *at < span.from);
        events.get(next).is_none_or(|at| *at > span.to)
    }

    /// True if this process may have had holds before `to` that are not in the log.
    fn has_unlogged_holds(&self, process: u32, to: u64) -> bool {
        self.unlogged.get(&process).is_some_and(|at| *at <= to)
    }

    /// The last call of each thread of this process, if it waits in `span`.
    pub fn calls(&self, process: u32, span: Span) -> impl Iterator<Item = &Waiting> {
        let threads = self.waiting.range((process, 0)..=(process, u32::MAX));
        threads.filter_map(move |(_, calls)| {
            let begun = calls.partition_point(|call| call.span.from <= span.to);
            let last = calls[..begun].last()?;
            (last.span.to >= span.from).then_some(last)
        })
    }

    /// The only call of this process that waits in `span`.
    pub fn only_call(&self, process: u32, span: Span) -> Option<Waiting> {
        let mut calls = self.calls(process, span);
        let call = calls.next()?;
        calls.next().is_none().then_some(*call)
    }

    /// True if the hold may be on a grant of a call that may pass others.
    pub fn passes_before(&self, hold: &Hold, reuse: u64) -> bool {
        let passes = self.passes.get(&hold.id.process);
        let passes = passes.map_or(&[][..], Vec::as_slice);
        let begun = passes.partition_point(|at| *at <= hold.since);
        let last = passes[..begun].last();
        last.is_some_and(|at| at.saturating_add(reuse) >= hold.asked)
    }

    /// True if another process than this one certainly held the lock after `from` and before `to`.
    pub fn is_held_by_another(&self, process: u32, from: u64, to: u64) -> bool {
        let end = self.confirmed.partition_point(|(at, ..)| *at < to);
        let Some((_, holder, begin)) = end.checked_sub(1).map(|last| self.confirmed[last]) else {
            return false;
        };
        // Those from `begin` to the last are of one process.
        let other = if holder == process { begin } else { end };
        other > 0 && self.confirmed[other - 1].0 > from
    }
}
