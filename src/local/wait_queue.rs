//! The threads of one client that wait until a number allows what they want, first come, first
//! served. No I/O.
//!
//! Only the first thread in the queue sends requests and listens for messages. The others sleep.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::base::clock::Moment;
use crate::base::parker::Unparker;

/// The threads of one client that wait for one number.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    /// Its mutex protects: exactly one thread in the queue is the first, and it is unparked after
    /// it became the first; no two threads have the same number.
    queue: Mutex<Queue>,
    /// Threads wait. Read without the mutex, because usually none does.
    is_used: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// The number of the next thread. It also rises over an empty queue: a thread may still ask for
    /// its position after all that waited with it have left.
    next: u64,
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

/// Where a thread is in the queue.
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
    /// The first thread has got what this one wants.
    Done,
}

/// A thread in the queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Queued<'a> {
    queue: &'a WaitQueue,
    number: u64,
}

/// Holds the mutex of a queue while threads enter it.
pub(super) struct Entrance<'a> {
    queue: MutexGuard<'a, Queue>,
    is_used: &'a AtomicBool,
}

impl WaitQueue {
    /// Whether threads wait.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// The number of permits that all waiting threads want.
    pub(crate) fn wanted(&self) -> u64 {
        self.queue.lock().wanted_before(u64::MAX)
    }

    /// Records a grant that does not count: only this many replicas confirmed it, which is too few.
    /// No effect if the thread of `unparker` is not the first: the others do not wait for its
    /// requests.
    pub(crate) fn unreplicated(&self, unparker: &Unparker, confirmed: u32) {
        let mut queue = self.queue.lock();
        let first = queue.waiting.front();
        if first.is_some_and(|first| first.unparker.same_as(unparker)) {
            queue.confirmed_replicas = Some(confirmed);
        }
    }

    /// How many replicas confirmed the last grant to the first thread, if they were too few.
    pub(crate) fn confirmed_replicas(&self) -> Option<u32> {
        self.queue.lock().confirmed_replicas
    }

    /// Adds a thread at the end. It is unparked when it becomes the first.
    pub(crate) fn enter(&self, wanted: u32, unparker: &Unparker) -> Queued<'_> {
        self.queued(self.entrance().enter(wanted, unparker))
    }

    /// Lets several threads enter with no other thread between them.
    pub(super) fn entrance(&self) -> Entrance<'_> {
        Entrance {
            queue: self.queue.lock(),
            is_used: &self.is_used,
        }
    }

    /// The thread in the queue that has this number.
    pub(crate) fn queued(&self, number: u64) -> Queued<'_> {
        Queued {
            queue: self,
            number,
        }
    }
}

impl Entrance<'_> {
    /// Adds a thread at the end, and returns its number. The thread leaves by means of
    /// [`queued`](WaitQueue::queued).
    pub(super) fn enter(&mut self, wanted: u32, unparker: &Unparker) -> u64 {
        let number = self.queue.next;
        self.queue.next += 1;
        self.queue.waiting.push_back(Waiting {
            number,
            wanted,
            unparker: unparker.clone(),
        });
        self.is_used.store(true, Ordering::Relaxed);
        number
    }
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
        let queue = self.queue.queue.lock();
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
        let mut queue = self.queue.queue.lock();
        let since = *queue.unanswered_since.get_or_insert(now);
        (since, queue.next)
    }

    /// Notes that the first thread has a reply.
    pub(crate) fn replied(&self) {
        let mut queue = self.queue.queue.lock();
        queue.unanswered_since = None;
        queue.confirmed_replicas = None;
    }

    /// The threads that waited when a request began have got what they want: they are
    /// [done](Position::Done).
    pub(crate) fn done_for(&self, waiting: u64) {
        let mut queue = self.queue.queue.lock();
        let is_done = |one: &Waiting| one.number < waiting && one.number != self.number;
        let (done, rest) = queue.waiting.drain(..).partition(is_done);
        queue.waiting = rest;
        drop(queue);
        let done: VecDeque<Waiting> = done;
        done.iter().for_each(|one| one.unparker.unpark());
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut queue = self.queue.queue.lock();
        let was_first = queue.first() == Some(self.number);
        let mut waiting = queue.waiting.iter();
        let place = waiting.position(|one| one.number == self.number);
        let left = place.and_then(|place| queue.waiting.remove(place));
        let next = queue.waiting.front().filter(|_| was_first);
        let next = next.map(|first| first.unparker.clone());
        if queue.waiting.is_empty() {
            (queue.unanswered_since, queue.confirmed_replicas) = (None, None);
            self.queue.is_used.store(false, Ordering::Relaxed);
        }
        drop(queue);
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

    fn behind(ahead: u64) -> Position {
        Position::Behind {
            ahead,
            unanswered_since: None,
        }
    }

    #[test]
    fn the_next_thread_is_the_first_one_and_is_woken() {
        let queue = WaitQueue::default();
        let parkers = [(); 3].map(|()| pair());
        assert!(!queue.is_used());
        let first = queue.enter(5, &parkers[0].0);
        let second = queue.enter(2, &parkers[1].0);
        let third = queue.enter(1, &parkers[2].0);
        assert_eq!(first.position(), Position::First);
        assert_eq!(second.position(), behind(5));
        assert_eq!((third.position(), queue.wanted()), (behind(7), 8));
        drop(second);
        assert_eq!(third.position(), behind(5));
        assert!(!parkers[2].1.sleep(Duration::ZERO));
        drop(first);
        assert!(parkers[2].1.sleep(Duration::ZERO));
        assert_eq!(third.position(), Position::First);
        drop(third);
        assert!(!queue.is_used());
    }

    #[test]
    fn one_thread_can_finish_the_wait_of_those_that_waited_before_its_request() {
        let queue = WaitQueue::default();
        let parkers = [(); 3].map(|()| pair());
        let first = queue.enter(0, &parkers[0].0);
        let second = queue.enter(0, &parkers[1].0);
        let (_, waiting) = first.begin_request(Moment::ZERO);
        let late = queue.enter(0, &parkers[2].0);
        first.done_for(waiting);
        assert_eq!(second.position(), Position::Done);
        assert!(parkers[1].1.sleep(Duration::ZERO));
        assert!(matches!(late.position(), Position::Behind { .. }));
        drop(first);
        assert_eq!(late.position(), Position::First);
        drop(second);
        assert!(queue.is_used());
    }

    #[test]
    fn only_the_first_thread_reports_to_the_others_that_too_few_replicas_confirmed() {
        let queue = WaitQueue::default();
        let [outside, first, second] = [(); 3].map(|()| pair().0);
        let queued = queue.enter(1, &first);
        let _behind = queue.enter(1, &second);
        queue.unreplicated(&outside, 1);
        queue.unreplicated(&second, 1);
        assert_eq!(queue.confirmed_replicas(), None);
        queue.unreplicated(&first, 1);
        assert_eq!(queue.confirmed_replicas(), Some(1));
        queued.replied();
        assert_eq!(queue.confirmed_replicas(), None);
    }

    /// A latch can be used again: its waiting threads have slept through the end of their queue.
    #[test]
    fn a_thread_whose_queue_has_ended_is_not_taken_for_one_that_came_later() {
        let queue = WaitQueue::default();
        let parkers = [(); 4].map(|()| pair());
        let first = queue.enter(0, &parkers[0].0);
        let second = queue.enter(0, &parkers[1].0);
        let (_, waiting) = first.begin_request(Moment::ZERO);
        first.done_for(waiting);
        drop(first);
        assert!(!queue.is_used());
        let third = queue.enter(0, &parkers[2].0);
        let fourth = queue.enter(0, &parkers[3].0);
        assert_eq!(second.position(), Position::Done);
        drop(second);
        assert_eq!(third.position(), Position::First);
        assert_eq!(fourth.position(), behind(0));
    }

    #[test]
    fn the_others_know_since_when_the_first_has_no_reply() {
        let queue = WaitQueue::default();
        let parkers = [(); 2].map(|()| pair());
        let first = queue.enter(1, &parkers[0].0);
        let second = queue.enter(1, &parkers[1].0);
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
