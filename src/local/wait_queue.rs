//! The threads of one client that wait until a key allows what they want, first come, first served.
//! For kinds without a holder: semaphores and latches. No I/O.
//!
//! Only the first thread in a queue sends requests and listens for messages. The others sleep.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::parker::Unparker;

/// The queues of one client. A key has a queue while threads wait for it.
#[derive(Debug, Default)]
pub(crate) struct WaitQueues {
    /// Its mutex protects: exactly one thread in each queue is the first, and it is unparked after
    /// it became the first; no two threads have the same number.
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

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Since when the requests of the first thread have had no reply.
    unanswered_since: Option<Moment>,
    /// Set if its last request was granted, but only this many replicas confirmed it: too few.
    confirmed_replicas: Option<u32>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    /// How many permits the thread wants.
    wanted: u32,
    unparker: Unparker,
}

/// Where a thread is in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// It may send requests.
    First,
    Behind {
        /// The number of permits that the threads before it want.
        ahead: u64,
        /// Since when the first thread has waited for a reply.
        unanswered_since: Option<Moment>,
    },
    /// The first thread has got what all threads of the queue want.
    Done,
}

/// A thread in a queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Queued<'a> {
    queues: &'a WaitQueues,
    id: Id,
    number: u64,
}

impl WaitQueues {
    /// Whether threads wait for this key.
    pub(crate) fn has(&self, key: &LockKey) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.state.lock().queues.contains_key(&id(key))
    }

    /// The number of permits that all waiting threads want.
    pub(crate) fn wanted(&self, key: &LockKey) -> u64 {
        let state = self.state.lock();
        let queue = state.queues.get(&id(key));
        queue.map_or(0, |queue| queue.wanted_before(u64::MAX))
    }

    /// Records a grant that does not count: only this many replicas confirmed it, which is too few.
    /// No effect if the thread of `unparker` is not the first of its queue: the others do not wait
    /// for its requests.
    pub(crate) fn unreplicated(&self, key: &LockKey, unparker: &Unparker, confirmed: u32) {
        if let Some(queue) = self.state.lock().queues.get_mut(&id(key))
            && let Some(first) = queue.waiting.front()
            && first.unparker.same_as(unparker)
        {
            queue.confirmed_replicas = Some(confirmed);
        }
    }

    /// How many replicas confirmed the last grant to the first thread, if they were too few.
    pub(crate) fn confirmed_replicas(&self, key: &LockKey) -> Option<u32> {
        let state = self.state.lock();
        state.queues.get(&id(key))?.confirmed_replicas
    }

    /// Adds a thread at the end of the queue. It is unparked when it becomes the first.
    pub(crate) fn enter(&self, key: &LockKey, wanted: u32, unparker: &Unparker) -> Queued<'_> {
        let id = id(key);
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        let queue = state.queues.entry(id.clone()).or_default();
        queue.waiting.push_back(Waiting {
            number,
            wanted,
            unparker: unparker.clone(),
        });
        self.count.store(state.queues.len(), Ordering::Relaxed);
        Queued {
            queues: self,
            id,
            number,
        }
    }
}

fn id(key: &LockKey) -> Id {
    (Arc::clone(key.key()), Arc::clone(key.channel()))
}

impl Queue {
    /// The number of permits that the threads before this one want.
    fn wanted_before(&self, number: u64) -> u64 {
        let before = self.waiting.iter().take_while(|one| one.number < number);
        before.map(|one| u64::from(one.wanted)).sum()
    }

    fn first(&self) -> Option<u64> {
        self.waiting.front().map(|first| first.number)
    }
}

impl Queued<'_> {
    pub(crate) fn position(&self) -> Position {
        let state = self.queues.state.lock();
        let Some(queue) = state.queues.get(&self.id) else {
            return Position::Done;
        };
        if queue.first() == Some(self.number) {
            Position::First
        } else if queue.waiting.iter().any(|one| one.number == self.number) {
            Position::Behind {
                ahead: queue.wanted_before(self.number),
                unanswered_since: queue.unanswered_since,
            }
        } else {
            Position::Done
        }
    }

    /// Notes that the first thread sends a request. Returns since when the requests of this queue
    /// have had no reply, and the threads that wait now, for [`done_for`](Self::done_for).
    pub(crate) fn begin_request(&self, now: Moment) -> (Moment, u64) {
        let mut state = self.queues.state.lock();
        let next = state.next;
        let queue = state.queues.get_mut(&self.id);
        queue.map_or((now, 0), |queue| {
            let since = *queue.unanswered_since.get_or_insert(now);
            (since, next)
        })
    }

    /// Notes that the first thread has a reply.
    pub(crate) fn replied(&self) {
        if let Some(queue) = self.queues.state.lock().queues.get_mut(&self.id) {
            queue.unanswered_since = None;
            queue.confirmed_replicas = None;
        }
    }

    /// The threads that waited when a request began have got what they want: they are
    /// [done](Position::Done).
    pub(crate) fn done_for(&self, waiting: u64) {
        let mut state = self.queues.state.lock();
        let Some(queue) = state.queues.get_mut(&self.id) else {
            return;
        };
        let is_done = |one: &Waiting| one.number < waiting && one.number != self.number;
        let (done, rest) = queue.waiting.drain(..).partition(is_done);
        queue.waiting = rest;
        drop(state);
        let done: VecDeque<Waiting> = done;
        done.iter().for_each(|one| one.unparker.unpark());
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut state = self.queues.state.lock();
        let Some(queue) = state.queues.get_mut(&self.id) else {
            return;
        };
        let was_first = queue.first() == Some(self.number);
        let mut waiting = queue.waiting.iter();
        let place = waiting.position(|one| one.number == self.number);
        let left = place.and_then(|place| queue.waiting.remove(place));
        let next = queue.waiting.front().filter(|_| was_first);
        let next = next.map(|first| first.unparker.clone());
        if queue.waiting.is_empty() {
            state.queues.remove(&self.id);
            self.queues
                .count
                .store(state.queues.len(), Ordering::Relaxed);
        }
        drop(state);
        drop(left);
        if let Some(next) = next {
            next.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parker::pair;
    use std::time::Duration;

    fn key(name: &str) -> LockKey {
        LockKey::new("", name)
    }

    fn behind(ahead: u64) -> Position {
        Position::Behind {
            ahead,
            unanswered_since: None,
        }
    }

    #[test]
    fn the_next_thread_is_the_first_one_and_is_woken() {
        let queues = WaitQueues::default();
        let key = key("a");
        let parkers = [(); 3].map(|()| pair());
        assert!(!queues.has(&key));
        let first = queues.enter(&key, 5, &parkers[0].0);
        let second = queues.enter(&key, 2, &parkers[1].0);
        let third = queues.enter(&key, 1, &parkers[2].0);
        assert_eq!(first.position(), Position::First);
        assert_eq!(second.position(), behind(5));
        assert_eq!((third.position(), queues.wanted(&key)), (behind(7), 8));
        drop(second);
        assert_eq!(third.position(), behind(5));
        assert!(!parkers[2].1.sleep(Duration::ZERO));
        drop(first);
        assert!(parkers[2].1.sleep(Duration::ZERO));
        assert_eq!(third.position(), Position::First);
        drop(third);
        assert!(!queues.has(&key) && queues.state.lock().queues.is_empty());
    }

    #[test]
    fn one_thread_can_finish_the_wait_of_those_that_waited_before_its_request() {
        let queues = WaitQueues::default();
        let key = key("a");
        let parkers = [(); 3].map(|()| pair());
        let first = queues.enter(&key, 0, &parkers[0].0);
        let second = queues.enter(&key, 0, &parkers[1].0);
        let (_, waiting) = first.begin_request(Moment::ZERO);
        let late = queues.enter(&key, 0, &parkers[2].0);
        first.done_for(waiting);
        assert_eq!(second.position(), Position::Done);
        assert!(parkers[1].1.sleep(Duration::ZERO));
        assert!(matches!(late.position(), Position::Behind { .. }));
        drop(first);
        assert_eq!(late.position(), Position::First);
        drop(second);
        assert!(queues.has(&key));
    }

    #[test]
    fn only_the_first_thread_reports_to_the_others_that_too_few_replicas_confirmed() {
        let queues = WaitQueues::default();
        let key = key("a");
        let [outside, first, second] = [(); 3].map(|()| pair().0);
        let queued = queues.enter(&key, 1, &first);
        let _behind = queues.enter(&key, 1, &second);
        queues.unreplicated(&key, &outside, 1);
        queues.unreplicated(&key, &second, 1);
        assert_eq!(queues.confirmed_replicas(&key), None);
        queues.unreplicated(&key, &first, 1);
        assert_eq!(queues.confirmed_replicas(&key), Some(1));
        queued.replied();
        assert_eq!(queues.confirmed_replicas(&key), None);
    }

    /// A latch can be used again: its waiting threads have slept through the end of their queue.
    #[test]
    fn a_thread_whose_queue_was_removed_is_not_taken_for_one_of_the_next_queue() {
        let queues = WaitQueues::default();
        let key = key("a");
        let parkers = [(); 4].map(|()| pair());
        let first = queues.enter(&key, 0, &parkers[0].0);
        let second = queues.enter(&key, 0, &parkers[1].0);
        let (_, waiting) = first.begin_request(Moment::ZERO);
        first.done_for(waiting);
        drop(first);
        assert!(!queues.has(&key));
        let third = queues.enter(&key, 0, &parkers[2].0);
        let fourth = queues.enter(&key, 0, &parkers[3].0);
        assert_eq!(second.position(), Position::Done);
        drop(second);
        assert_eq!(third.position(), Position::First);
        assert_eq!(fourth.position(), behind(0));
    }

    #[test]
    fn the_others_know_since_when_the_first_has_no_reply() {
        let queues = WaitQueues::default();
        let key = key("a");
        let parkers = [(); 2].map(|()| pair());
        let first = queues.enter(&key, 1, &parkers[0].0);
        let second = queues.enter(&key, 1, &parkers[1].0);
        let since = |since| Position::Behind {
            ahead: 1,
            unanswered_since: since,
        };
        first.begin_request(Moment::ZERO);
        let (unanswered_since, _) = first.begin_request(Moment::ZERO.after(Duration::from_secs(1)));
        assert_eq!(unanswered_since, Moment::ZERO);
        assert_eq!(second.position(), since(Some(Moment::ZERO)));
        first.replied();
        assert_eq!(second.position(), since(None));
    }
}
