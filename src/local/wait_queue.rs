//! The threads of one client that wait until a key allows what they want, first come, first served.
//! For kinds without a holder: semaphores and latches. No I/O.
//!
//! While no request was refused, the first threads of a queue send requests at the same time. After
//! a refusal, only the first one sends requests and listens for messages. The others sleep.
//!
//! A thread that releases permits hands them over to a thread that sleeps, for at most a slice after
//! a grant of Redis. Then other clients get their turn.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::HashMap;
use parking_lot::Mutex;

use super::yields::SLICE;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::parker::Unparker;

/// How many threads of a queue send requests at the same time while none is refused. With more, a
/// thread that releases permits rarely finds one that sleeps. With fewer, threads that only take
/// permits wait for the round trips of others.
const AT_ONCE: usize = 32;

/// The queues of one client. A key has a queue while threads wait for it.
#[derive(Debug, Default)]
pub(crate) struct WaitQueues {
    /// Its mutex protects: a thread that may send requests is unparked after it was allowed to; a
    /// thread gets permits by its request or from another thread, never both; no two threads have
    /// the same number.
    state: Mutex<State>,
    /// The number of queues. Read without the mutex, because usually there are none.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    queues: HashMap<Id, Queue>,
    /// The number of the next thread. It rises for all queues together: a thread may still ask for
    /// its position after its queue was removed and another made for the same key.
    next: u64,
}

/// Key and channel: kinds with different channels have queues of their own.
type Id = (Arc<str>, Arc<str>);

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// How many threads at its head may send requests.
    senders: usize,
    /// The client may have its place in the line. The last thread of the queue leaves the line.
    has_place: bool,
    /// The place according to the last reply, if no request or call has come after it.
    place: Option<LinePlace>,
    /// When Redis last granted what a thread of this queue wants.
    granted: Option<Moment>,
    /// Since when the requests of this queue have had no reply.
    unanswered_since: Option<Moment>,
    /// Set if the last request of the first thread was granted, but only this many replicas
    /// confirmed it: too few.
    confirmed_replicas: Option<u32>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    /// How many permits the thread wants.
    wanted: u32,
    /// Set before the thread sleeps.
    unparker: Option<Unparker>,
    /// It sends a request, or leaves the queue. Otherwise it sleeps, or is about to look at its
    /// position.
    sends: bool,
    /// It waits for the reply to a request.
    asks: bool,
}

/// The place of a client in a line, as a reply tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinePlace {
    /// How many clients are before it.
    pub(crate) rank: u32,
    /// A moment before the request.
    pub(crate) asked: Moment,
    /// The client also listens to the channel.
    pub(crate) listens: bool,
}

/// Where a thread is in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// It may send requests. No other thread may.
    First,
    /// It may send one request, as other threads may.
    AmongFirst,
    Behind {
        /// The number of permits that the threads before it want.
        ahead: u64,
        /// Since when the requests of the queue have had no reply.
        unanswered_since: Option<Moment>,
    },
    /// Another thread has got for it what it wants.
    Done,
}

/// What the end of a wait means for the place of the client in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// The thread is the last one, and the client may have its place: it leaves the line. It is
    /// still in the queue.
    AfterLine,
    /// The next thread makes the place its own.
    PlaceStays,
    /// The client has no place.
    Done { others_wait: bool },
}

/// A thread in a queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Queued<'a> {
    queues: &'a WaitQueues,
    id: Id,
    number: u64,
}

impl WaitQueues {
    /// The number of permits that all waiting threads want, if one of them was refused.
    pub(crate) fn wanted(&self, key: &LockKey) -> u64 {
        if self.count.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let state = self.state.lock();
        let queue = state.queues.get(&id(key));
        let refused = queue.filter(|queue| queue.senders == 1);
        refused.map_or(0, |queue| queue.wanted_before(usize::MAX))
    }

    /// Records a grant that does not count: only this many replicas confirmed it, which is too few.
    /// No effect if the thread of `unparker` is not the first of its queue: the others do not wait
    /// for its requests.
    pub(crate) fn unreplicated(&self, key: &LockKey, unparker: &Unparker, confirmed: u32) {
        if let Some(queue) = self.state.lock().queues.get_mut(&id(key))
            && let Some(first) = queue.waiting.front()
            && first
                .unparker
                .as_ref()
                .is_some_and(|first| first.same_as(unparker))
        {
            queue.confirmed_replicas = Some(confirmed);
        }
    }

    /// How many replicas confirmed the last grant to the first thread, if they were too few.
    pub(crate) fn confirmed_replicas(&self, key: &LockKey) -> Option<u32> {
        let state = self.state.lock();
        state.queues.get(&id(key))?.confirmed_replicas
    }

    /// Adds a thread at the end of the queue. If there is none, several threads of the new one may
    /// send requests at the same time, unless one `is_refused`.
    pub(crate) fn enter(&self, key: &LockKey, wanted: u32, is_refused: bool) -> Queued<'_> {
        let id = id(key);
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        let queue = state.queues.entry(id.clone());
        let queue = queue.or_insert_with(|| Queue::new(if is_refused { 1 } else { AT_ONCE }));
        queue.waiting.push_back(Waiting {
            number,
            wanted,
            unparker: None,
            sends: false,
            asks: false,
        });
        self.count.store(state.queues.len(), Ordering::Relaxed);
        Queued {
            queues: self,
            id,
            number,
        }
    }

    /// Gives released permits to the first thread that sleeps, if it wants as many, and Redis has
    /// granted permits to a thread of the queue within a slice. A thread stays in the queue that
    /// leaves the line.
    pub(crate) fn hand_over(&self, key: &LockKey, permits: u32) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut state = self.state.lock();
        let Some(queue) = state.queues.get_mut(&id(key)) else {
            return false;
        };
        let is_last = queue.waiting.len() == 1;
        let granted = queue.granted.filter(|_| !is_last || !queue.has_place);
        let mut waiting = queue.waiting.iter();
        let Some(index) = waiting.position(|one| !one.sends) else {
            return false;
        };
        if queue.waiting[index].wanted != permits
            || granted.is_none_or(|granted| granted.after(SLICE).is_past())
        {
            return false;
        }
        let (done, next) = queue.remove(index);
        self.remove_if_empty(&mut state, &id(key));
        drop(state);
        let done = done.and_then(|done| done.unparker);
        done.into_iter().chain(next).for_each(|one| one.unpark());
        true
    }

    /// The client may have been called, or have sent a request that no thread waits for: the first
    /// thread sends another.
    pub(crate) fn forget_place(&self, key: &LockKey) {
        let mut state = self.state.lock();
        let queue = state.queues.get_mut(&id(key));
        let first = queue.and_then(|queue| {
            queue.place = None;
            queue.waiting.front()?.unparker.clone()
        });
        drop(state);
        if let Some(first) = first {
            first.unpark();
        }
    }

    fn remove_if_empty(&self, state: &mut State, id: &Id) {
        if state
            .queues
            .get(id)
            .is_some_and(|queue| queue.waiting.is_empty())
        {
            state.queues.remove(id);
            self.count.store(state.queues.len(), Ordering::Relaxed);
        }
    }
}

fn id(key: &LockKey) -> Id {
    (Arc::clone(key.key()), Arc::clone(key.channel()))
}

impl Queue {
    fn new(senders: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            senders,
            has_place: false,
            place: None,
            granted: None,
            unanswered_since: None,
            confirmed_replicas: None,
        }
    }

    /// The number of permits that the threads before this one want.
    fn wanted_before(&self, index: usize) -> u64 {
        let before = self.waiting.iter().take(index);
        before.map(|one| u64::from(one.wanted)).sum()
    }

    fn index(&self, number: u64) -> Option<usize> {
        self.waiting.iter().position(|one| one.number == number)
    }

    /// Removes a thread. Returns it, and the one to wake that may send requests instead.
    fn remove(&mut self, index: usize) -> (Option<Waiting>, Option<Unparker>) {
        let removed = self.waiting.remove(index);
        let next = self.waiting.get(self.senders - 1);
        let next = next.filter(|next| index < self.senders && !next.sends);
        (removed, next.and_then(|next| next.unparker.clone()))
    }
}

impl Queued<'_> {
    /// Changes the queue and the thread in it. `None` if the thread is not in it any more.
    fn update<T>(&self, change: impl FnOnce(&mut Queue, usize) -> T) -> Option<T> {
        let mut state = self.queues.state.lock();
        let queue = state.queues.get_mut(&self.id)?;
        let index = queue.index(self.number)?;
        Some(change(queue, index))
    }

    /// If the thread may send requests, it gets nothing from other threads until the next
    /// [`sleeps`](Self::sleeps).
    pub(crate) fn position(&self) -> Position {
        let position = self.update(|queue, index| {
            if index >= queue.senders {
                return Position::Behind {
                    ahead: queue.wanted_before(index),
                    unanswered_since: queue.unanswered_since,
                };
            }
            queue.waiting[index].sends = true;
            match queue.senders {
                1 => Position::First,
                _ => Position::AmongFirst,
            }
        });
        position.unwrap_or(Position::Done)
    }

    /// The thread gets nothing from other threads from now on. True if it has got what it wants.
    pub(crate) fn is_done(&self) -> bool {
        self.update(|queue, index| queue.waiting[index].sends = true)
            .is_none()
    }

    /// The thread sleeps from now on. It is unparked when its position changes.
    pub(crate) fn sleeps(&self, unparker: &Unparker) {
        let unparker = unparker.clone();
        self.update(|queue, index| {
            let waiting = &mut queue.waiting[index];
            waiting.sends = false;
            waiting.unparker = Some(unparker);
        });
    }

    /// Notes that the thread sends a request. Returns since when the requests of this queue have had
    /// no reply, and the last thread that waits now, for [`done_for`](Self::done_for).
    pub(crate) fn begin_request(&self, now: Moment) -> (Moment, u64) {
        let begun = self.update(|queue, index| {
            queue.waiting[index].asks = true;
            let last = queue.waiting.back().map_or(0, |last| last.number);
            let since = *queue.unanswered_since.get_or_insert(now);
            (since, last)
        });
        begun.unwrap_or((now, 0))
    }

    /// Notes the reply to the request of the thread.
    pub(crate) fn replied(&self, is_granted: bool) {
        let now = Moment::now();
        self.update(|queue, index| {
            queue.waiting[index].asks = false;
            if is_granted {
                queue.granted = Some(now);
            }
            if index == 0 {
                queue.confirmed_replicas = None;
            }
            let is_asked = queue.waiting.iter().any(|one| one.asks);
            queue.unanswered_since = is_asked.then_some(now);
        });
    }

    /// A request was refused: only the first thread sends requests from now on.
    pub(crate) fn refused(&self) {
        self.update(|queue, _| queue.senders = 1);
    }

    /// The first request of the first thread was granted: several threads may send requests.
    pub(crate) fn granted_at_once(&self) {
        let next = self.update(|queue, _| {
            queue.senders = AT_ONCE;
            let next = queue.waiting.iter().take(AT_ONCE).skip(1);
            let next = next.filter_map(|one| one.unparker.clone());
            next.collect::<Vec<_>>()
        });
        next.iter().flatten().for_each(Unparker::unpark);
    }

    /// Whether the client may have its place in the line.
    pub(crate) fn has_place(&self) -> bool {
        self.update(|queue, _| queue.has_place).unwrap_or_default()
    }

    pub(crate) fn set_place(&self, has_place: bool, place: Option<LinePlace>) {
        self.update(|queue, _| (queue.has_place, queue.place) = (has_place, place));
    }

    /// The place of the client. A thread that becomes the first needs no request then.
    pub(crate) fn place(&self) -> Option<LinePlace> {
        self.update(|queue, _| queue.place).flatten()
    }

    /// Leaves the queue, unless the thread has to leave the line first.
    pub(crate) fn leave(&self) -> Leaving {
        let mut state = self.queues.state.lock();
        let Some(queue) = state.queues.get_mut(&self.id) else {
            return Leaving::Done { others_wait: false };
        };
        let others_wait = queue.waiting.len() > 1;
        let Some(index) = queue.index(self.number) else {
            return Leaving::Done { others_wait };
        };
        if queue.has_place && !others_wait {
            (queue.has_place, queue.place) = (false, None);
            return Leaving::AfterLine;
        }
        let has_place = queue.has_place;
        let (left, next) = queue.remove(index);
        self.queues.remove_if_empty(&mut state, &self.id);
        drop(state);
        drop(left);
        if let Some(next) = next {
            next.unpark();
        }
        match has_place {
            true => Leaving::PlaceStays,
            false => Leaving::Done { others_wait },
        }
    }

    /// The threads up to this one, which waited when a request began, have got what they want: they
    /// are [done](Position::Done).
    pub(crate) fn done_for(&self, last: u64) {
        let done = self.update(|queue, _| {
            let is_done = |one: &Waiting| one.number <= last && one.number != self.number;
            let (done, rest) = queue.waiting.drain(..).partition(is_done);
            queue.waiting = rest;
            done
        });
        let done: VecDeque<Waiting> = done.unwrap_or_default();
        let done = done.iter().filter_map(|one| one.unparker.as_ref());
        done.for_each(Unparker::unpark);
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        if let Leaving::AfterLine = self.leave() {
            // The client may keep its place until it does not answer a call.
            self.leave();
        }
    }
}

#[cfg(test)]
mod tests;
