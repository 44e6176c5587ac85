//! The places that clients keep in the queue or the line of a lock during calms, and those that
//! they lose although they still wait.

use std::collections::BTreeMap;

use super::history::Queue;
use super::lock::{LISTENS, Lock, RETURNS, Waiting};
use super::span::Span;
use super::{Bounds, History, nanos};

/// A client that keeps its place.
#[derive(Clone)]
pub struct Wait {
    pub process: u32,
    /// Its only call that waits; `None` for one of several.
    pub call: Option<Waiting>,
    /// Before it was seen for the first time.
    seen: u64,
    /// From the first time to the last.
    pub span: Span,
    /// The clients that were before it, and since when they are not; `u64::MAX` if they are.
    pub before: BTreeMap<u32, u64>,
}

/// The clients that keep a place in the queue of this lock during calms, and those that lost theirs
/// although they still waited, with the times of the losses. A client that is not subscribed keeps
/// none: it asks from time to time, and a release may move it to the end.
pub fn waits(
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
        let mut open: BTreeMap<u32, Wait> = BTreeMap::new();
        let processes = |queue: &Queue| -> Vec<u32> {
            let clients = queue.clients.iter();
            let processes = clients.filter_map(|id| history.clients.get(id));
            processes.copied().collect()
        };
        // By process: since when it has a place, if it had none before. A look at a queue that is
        // still empty is not in the log.
        let before = begin.checked_sub(1).map(|at| processes(&queues[at]));
        let before = before.unwrap_or_default().into_iter();
        let mut entered: BTreeMap<u32, Option<u64>> =
            before.map(|process| (process, None)).collect();
        let mut last: Option<&Queue> = None;
        let queues = queues[begin..].iter();
        for queue in queues.take_while(|queue| queue.span.to <= calm.to) {
            let clients = processes(queue);
            let mut still_open = BTreeMap::new();
            entered.retain(|process, _| clients.contains(process));
            for process in &clients {
                entered.entry(*process).or_insert(Some(queue.span.from));
            }
            let last = last.replace(queue);
            // Before, the client may not have listened yet.
            let from = last.map_or(0, |last| last.span.from);
            let has_entered =
                |process: u32| entered[&process].is_none_or(|since| since + nanos(LISTENS) < from);
            // Called places of a semaphore are before the others.
            if let Some(last) = last.filter(|_| bounds.permits.is_none()) {
                // Another thread of the process may have left the line shortly before, when it did
                // not know of this call.
                let from = from.saturating_sub(nanos(LISTENS));
                let span = Span { from, ..queue.span };
                let moved = moved(history, last, &clients);
                let moved = moved.filter(|process| {
                    has_entered(*process) && lock.waits_without_hold(*process, span)
                });
                lost.extend(moved.map(|process| (process, queue.span.to)));
            }
            for (process, wait) in &open {
                let listens = LISTENS + history.machine.slip(*process, wait.span);
                let is_settled = !history.gone.contains_key(process)
                    && wait.span.to > wait.span.from.saturating_add(nanos(listens));
                let since = Span {
                    from: wait.seen,
                    to: queue.span.to.saturating_add(nanos(RETURNS)),
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
                let is_settled = is_subscribed && is_waiting && has_entered(process);
                if !is_settled {
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
