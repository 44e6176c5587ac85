//! The threads of one client that wait until a key allows what they want, first come, first served.
//! For kinds without a holder: semaphores and latches. No I/O.
//!
//! While no request was refused, the first threads of a queue send requests at the same time. After
//! a refusal, only the first one sends requests and listens for messages. The others sleep.
//!
//! A thread that releases permits hands them over to a thread that sleeps, for at most a slice
//! after a grant of Redis. Then other clients get their turn.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::yields::SLICE;
use crate::base::clock::Moment;
use crate::base::parker::Unparker;

/// How many threads of a queue send requests at the same time while none is refused. With more, a
/// thread that releases permits rarely finds one that sleeps. With fewer, threads that only take
/// permits wait for the round trips of others.
const AT_ONCE: usize = 32;

/// The threads of one client that wait for one number.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    /// Its mutex protects: a thread that may send requests is unparked after it was allowed to; a
    /// thread gets permits by its request or from another thread, never both.
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// The number of the next thread.
    next: u64,
    /// A request was refused. Only the first thread sends requests.
    is_refused: bool,
    /// The client may have its place in the line. The last thread of the queue leaves the line.
    has_place: bool,
    /// When Redis last granted what a thread wants.
    granted: Option<Moment>,
    /// Since when the requests of this queue have had no reply.
    unanswered_since: Option<Moment>,
    /// Set if the last request was granted, but only this many replicas confirmed it: too few.
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

/// Where a thread is in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// It may send requests. No other thread may.
    First,
    /// It sends one request, as other threads may.
    AmongFirst,
    Behind {
        /// The number of permits that the threads before it want, if one of them was refused.
        /// Otherwise Redis may have granted these permits already.
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
    /// The thread has left the queue, and knows of no place.
    Done { others_wait: bool },
}

/// A thread in a queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Queued<'a> {
    queue: &'a WaitQueue,
    number: u64,
}

impl WaitQueue {
    /// True if threads are in the queue.
    pub(super) fn is_used(&self) -> bool {
        !self.queue.lock().waiting.is_empty()
    }

    /// The number of permits that all waiting threads want, if one of them was refused.
    pub(crate) fn wanted(&self) -> u64 {
        self.queue.lock().wanted_before(usize::MAX)
    }

    /// Records a grant that does not count: only this many replicas confirmed it, which is too few.
    pub(crate) fn unreplicated(&self, confirmed: u32) {
        self.queue.lock().confirmed_replicas = Some(confirmed);
    }

    /// How many replicas confirmed the last grant, if they were too few.
    pub(crate) fn confirmed_replicas(&self) -> Option<u32> {
        self.queue.lock().confirmed_replicas
    }

    /// Adds a thread at the end of the queue. If it wants no permits, one thread sends requests for
    /// all.
    pub(crate) fn enter(&self, wanted: u32) -> Queued<'_> {
        let mut queue = self.queue.lock();
        if wanted == 0 {
            queue.is_refused = true;
        }
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push_back(Waiting {
            number,
            wanted,
            unparker: None,
            sends: false,
            asks: false,
        });
        Queued {
            queue: self,
            number,
        }
    }

    /// Gives released permits to the first thread that sleeps, if it wants as many, and Redis has
    /// granted permits to a thread of the queue within a slice. A thread stays in the queue that
    /// leaves the line.
    pub(crate) fn hand_over(&self, permits: u32) -> bool {
        let mut queue = self.queue.lock();
        let keeps_place = !queue.has_place || queue.waiting.len() > 1;
        let mut waiting = queue.waiting.iter();
        let Some(index) = waiting.position(|one| !one.sends) else {
            return false;
        };
        if !keeps_place
            || queue.waiting[index].wanted != permits
            || queue
                .granted
                .is_none_or(|granted| granted.after(SLICE).is_past())
        {
            return false;
        }
        let (done, next) = queue.remove(index);
        drop(queue);
        let done = done.and_then(|done| done.unparker);
        done.into_iter().chain(next).for_each(|one| one.unpark());
        true
    }
}

impl Queue {
    /// How many threads at its head may send requests.
    fn senders(&self) -> usize {
        if self.is_refused { 1 } else { AT_ONCE }
    }

    /// The number of permits that the threads before this one want, if one of them was refused.
    fn wanted_before(&self, index: usize) -> u64 {
        let refused = self.waiting.iter().take_while(|_| self.is_refused);
        refused.take(index).map(|one| u64::from(one.wanted)).sum()
    }

    fn index(&self, number: u64) -> Option<usize> {
        self.waiting
            .binary_search_by_key(&number, |one| one.number)
            .ok()
    }

    fn begin_request(&mut self, index: usize, now: Moment) -> (Moment, u64) {
        self.waiting[index].asks = true;
        let last = self.waiting.back().map_or(0, |last| last.number);
        let since = *self.unanswered_since.get_or_insert(now);
        (since, last)
    }

    /// Removes a thread. Returns it, and the one to wake that may send requests instead.
    fn remove(&mut self, index: usize) -> (Option<Waiting>, Option<Unparker>) {
        let removed = self.waiting.remove(index);
        if self.waiting.is_empty() {
            (self.unanswered_since, self.confirmed_replicas) = (None, None);
        }
        let next = self.waiting.get(self.senders() - 1);
        let next = next.filter(|next| index < self.senders() && !next.sends);
        (removed, next.and_then(|next| next.unparker.clone()))
    }
}

impl Queued<'_> {
    /// Changes the queue and the thread in it. `None` if the thread is not in it any more.
    fn update<T>(&self, change: impl FnOnce(&mut Queue, usize) -> T) -> Option<T> {
        let mut queue = self.queue.queue.lock();
        let index = queue.index(self.number)?;
        Some(change(&mut queue, index))
    }

    /// If the thread may send requests, it gets nothing from other threads until the next
    /// [`sleeps`](Self::sleeps). If other threads may, too, its request
    /// [begins](Self::begin_request).
    pub(crate) fn position(&self, now: Moment) -> Position {
        let position = self.update(|queue, index| {
            if index >= queue.senders() {
                return Position::Behind {
                    ahead: queue.wanted_before(index),
                    unanswered_since: queue.unanswered_since,
                };
            }
            queue.waiting[index].sends = true;
            if queue.is_refused {
                return Position::First;
            }
            queue.begin_request(index, now);
            Position::AmongFirst
        });
        position.unwrap_or(Position::Done)
    }

    /// The thread gets nothing from other threads from now on. True if it has got what it wants.
    pub(crate) fn stop_sleeping(&self) -> bool {
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

    /// Notes that the thread sends a request. Returns since when the requests of this queue have
    /// had no reply, and the last thread that waits now, for [`done_for`](Self::done_for).
    pub(crate) fn begin_request(&self, now: Moment) -> (Moment, u64) {
        let begun = self.update(|queue, index| queue.begin_request(index, now));
        begun.unwrap_or((now, 0))
    }

    /// Notes the reply to the request of the thread. After a refusal, only the first thread sends
    /// requests.
    pub(crate) fn replied(&self, is_granted: bool) {
        let now = Moment::now();
        self.update(|queue, index| {
            queue.waiting[index].asks = false;
            match is_granted {
                true => queue.granted = Some(now),
                false => queue.is_refused = true,
            }
            queue.confirmed_replicas = None;
            let is_asked = queue.waiting.iter().any(|one| one.asks);
            queue.unanswered_since = is_asked.then_some(now);
        });
    }

    /// The first request of the first thread was granted: if no thread waits behind it, several
    /// threads may send requests.
    pub(crate) fn granted_at_once(&self) {
        self.update(|queue, _| {
            queue.is_refused &= queue.waiting.len() > 1;
        });
    }

    /// True if other threads wait, too.
    pub(crate) fn others_wait(&self) -> bool {
        self.update(|queue, _| queue.waiting.len() > 1)
            .unwrap_or_default()
    }

    /// Whether the client may have its place in the line.
    pub(crate) fn has_place(&self) -> bool {
        self.update(|queue, _| queue.has_place).unwrap_or_default()
    }

    pub(crate) fn set_place(&self, has_place: bool) {
        self.update(|queue, _| queue.has_place = has_place);
    }

    /// Leaves the queue, unless the thread has to leave the line first.
    pub(crate) fn leave(&self) -> Leaving {
        let mut queue = self.queue.queue.lock();
        let Some(index) = queue.index(self.number) else {
            return Leaving::Done { others_wait: true };
        };
        let others_wait = queue.waiting.len() > 1;
        if queue.has_place && !others_wait {
            queue.has_place = false;
            return Leaving::AfterLine;
        }
        let has_place = queue.has_place;
        let (left, next) = queue.remove(index);
        drop(queue);
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
