//! The local queue: lets one thread of a client at a time send requests about a lock to Redis.
//!
//! The thread with the ticket sends the requests, and keeps the ticket while it holds the lock. The
//! other threads of the client wait in the queue, first come first served, without I/O.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::hold::Hold;
use super::lost::LostHolds;
use crate::base::clock::Moment;
use crate::base::owner::ThreadId;
use crate::base::parker::Unparker;

/// All locks that threads of this client hold or wait for, by key.
///
/// Invariants that its mutex protects:
///
/// * A lock has at most one ticket.
/// * A ticket that is passed on goes to the next thread directly. No other thread sees it free.
/// * A hold knows whether threads wait for it.
/// * A reply wakes the threads that wait for that reply.
#[derive(Debug, Default)]
pub(crate) struct LocalQueue(Mutex<Locks>);

#[derive(Debug, Default)]
struct Locks {
    queues: HashMap<Arc<str>, LockQueue>,
    /// No thread waits for these.
    lost: LostHolds,
}

/// The queue of one lock. It exists while a thread holds the lock, requests it or waits for it.
#[derive(Debug, Default)]
struct LockQueue {
    ticket: Option<TicketOwner>,
    waiting: VecDeque<(ThreadId, Unparker)>,
    /// Waiting threads whose own deadline is past. They wait only for the reply to the thread that
    /// has the ticket.
    await_reply: Vec<(ThreadId, Unparker)>,
}

#[derive(Debug)]
struct TicketOwner {
    thread: ThreadId,
    /// `None` while the thread requests the lock.
    hold: Option<Arc<Hold>>,
    /// Set while there is no reply to the requests of this thread, and of the threads that had the
    /// ticket before it.
    unanswered: Option<Unanswered>,
}

impl TicketOwner {
    fn requesting(thread: ThreadId, unanswered: Unanswered) -> Self {
        Self {
            thread,
            hold: None,
            unanswered: Some(unanswered),
        }
    }
}

/// Requests for a lock without a reply that settles them.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    /// When the first of them was sent.
    since: Moment,
    /// Set if the last request was granted, but only this many replicas confirmed it: too few.
    confirmed_replicas: Option<u32>,
}

impl Unanswered {
    fn from_now() -> Self {
        Self {
            since: Moment::now(),
            confirmed_replicas: None,
        }
    }
}

/// The state of a lock in this process, as a thread finds it that wants the lock.
#[derive(Debug)]
pub(crate) enum QueueEntry {
    /// The thread holds the lock, or has lost it and not yet unlocked it.
    Held(Arc<Hold>),
    /// The thread got the ticket, and may request the lock from Redis.
    Front(Ticket),
    /// Another thread of this process holds the lock or requests it.
    Queued,
}

/// The result of entering the waiting queue.
#[derive(Debug)]
pub(crate) enum Enqueued {
    /// The ticket was free: the thread got it and does not wait.
    Front(Ticket),
    /// The thread is in the queue. `first`: it is the first to wait for the hold of another thread.
    Queued { first: bool },
}

/// The right of one thread to send requests about a lock to Redis. When it is dropped, the next
/// waiting thread gets it.
#[derive(Debug)]
pub(crate) struct Ticket {
    queue: Arc<LocalQueue>,
    key: Arc<str>,
    kept: bool,
}

impl LocalQueue {
    /// Takes the ticket if it is free.
    pub(crate) fn enter(self: &Arc<Self>, key: &Arc<str>, thread: ThreadId) -> QueueEntry {
        let mut locks = self.0.lock();
        if let Some(hold) = locks.hold_of(key, thread) {
            return QueueEntry::Held(hold);
        }
        let queue = locks.queues.entry(Arc::clone(key)).or_default();
        if queue.ticket.is_some() {
            return QueueEntry::Queued;
        }
        queue.ticket = Some(TicketOwner::requesting(thread, Unanswered::from_now()));
        QueueEntry::Front(self.ticket(key))
    }

    /// Waits behind the other threads. The queue wakes `unparker` when the thread has the ticket.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        key: &Arc<str>,
        thread: ThreadId,
        unparker: &Unparker,
    ) -> Enqueued {
        let mut locks = self.0.lock();
        let queue = locks.queues.entry(Arc::clone(key)).or_default();
        if queue.ticket.is_none() {
            queue.ticket = Some(TicketOwner::requesting(thread, Unanswered::from_now()));
            return Enqueued::Front(self.ticket(key));
        }
        queue.waiting.push_back((thread, unparker.clone()));
        Enqueued::Queued {
            first: queue.note_waiters(),
        }
    }

    /// Also wakes a waiting thread when the thread with the ticket gets a reply.
    pub(crate) fn await_reply(&self, key: &str, thread: ThreadId, unparker: &Unparker) {
        if let Some(queue) = self.0.lock().queues.get_mut(key) {
            queue.await_reply.push((thread, unparker.clone()));
        }
    }

    /// The ticket, if it was passed on to this waiting thread.
    pub(crate) fn take_ticket(
        self: &Arc<Self>,
        key: &Arc<str>,
        thread: ThreadId,
    ) -> Option<Ticket> {
        let locks = self.0.lock();
        let ticket = locks.queues.get(key)?.ticket.as_ref()?;
        (ticket.thread == thread).then(|| self.ticket(key))
    }

    /// Removes a waiting thread. Returns the ticket if it was passed on to the thread before that.
    pub(crate) fn leave(self: &Arc<Self>, key: &Arc<str>, thread: ThreadId) -> Option<Ticket> {
        let mut locks = self.0.lock();
        let queue = locks.queues.get_mut(key)?;
        if queue
            .ticket
            .as_ref()
            .is_some_and(|ticket| ticket.thread == thread)
        {
            return Some(self.ticket(key));
        }
        queue.waiting.retain(|(waiting, _)| *waiting != thread);
        queue.await_reply.retain(|(waiting, _)| *waiting != thread);
        queue.note_waiters();
        None
    }

    /// Since when requests for the lock have had no reply; `None` if the last one had a reply.
    pub(crate) fn unanswered_since(&self, key: &str) -> Option<Moment> {
        self.unanswered(key).map(|unanswered| unanswered.since)
    }

    /// True if no thread of this process has confirmed that another client holds the lock: no
    /// thread requests it, or the requests have had no reply since `heard` or earlier.
    pub(crate) fn may_be_free(&self, key: &str, heard: Moment) -> bool {
        let locks = self.0.lock();
        let ticket = locks
            .queues
            .get(key)
            .and_then(|queue| queue.ticket.as_ref());
        ticket.is_none_or(|ticket| {
            ticket
                .unanswered
                .is_some_and(|unanswered| unanswered.since <= heard)
        })
    }

    /// Set if the last request was granted, but only this many replicas confirmed it: too few.
    pub(crate) fn confirmed_replicas(&self, key: &str) -> Option<u32> {
        self.unanswered(key)?.confirmed_replicas
    }

    fn unanswered(&self, key: &str) -> Option<Unanswered> {
        self.0.lock().queues.get(key)?.ticket.as_ref()?.unanswered
    }

    /// The hold of this thread that it has not unlocked yet, lost or not.
    pub(crate) fn hold_of(&self, key: &Arc<str>, thread: ThreadId) -> Option<Arc<Hold>> {
        self.0.lock().hold_of(key, thread)
    }

    /// The hold of the thread with the ticket.
    pub(crate) fn current_hold(&self, key: &str) -> Option<Arc<Hold>> {
        self.0.lock().queues.get(key)?.ticket.as_ref()?.hold.clone()
    }

    /// Passes the ticket of a lost hold on. The hold is kept until its thread unlocks it.
    pub(crate) fn lost(&self, hold: &Hold) {
        let mut guard = self.0.lock();
        let locks = &mut *guard;
        let Some(queue) = locks.queues.get_mut(hold.key().key()) else {
            return;
        };
        let mut removed = Vec::new();
        if queue.has_ticket(hold)
            && let Some(lost) = queue.ticket.take().and_then(|ticket| ticket.hold)
        {
            lost.set_waiters(false);
            removed = locks.lost.insert(lost);
        }
        let next = locks.pass_on(hold.key().key(), Unanswered::from_now());
        drop(guard);
        drop(removed);
        unpark(next);
    }

    /// Removes a hold that its thread has unlocked, and passes its ticket on.
    pub(crate) fn close(&self, hold: &Hold) {
        let mut locks = self.0.lock();
        let queue = locks.queues.get_mut(hold.key().key());
        let ended = match queue.filter(|queue| queue.has_ticket(hold)) {
            Some(queue) => queue.ticket.take().and_then(|ticket| ticket.hold),
            None => locks.lost.remove(hold),
        };
        let next = locks.pass_on(hold.key().key(), Unanswered::from_now());
        drop(locks);
        drop(ended);
        unpark(next);
    }

    fn ticket(self: &Arc<Self>, key: &Arc<str>) -> Ticket {
        Ticket {
            queue: Arc::clone(self),
            key: Arc::clone(key),
            kept: false,
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        let locks = self.0.lock();
        locks.queues.is_empty() && locks.lost.is_empty()
    }
}

impl Locks {
    fn hold_of(&self, key: &Arc<str>, thread: ThreadId) -> Option<Arc<Hold>> {
        let ticket = self.queues.get(key).and_then(|queue| queue.ticket.as_ref());
        let current = ticket.and_then(|ticket| ticket.hold.as_ref());
        let current = current.filter(|hold| hold.thread() == thread);
        current.or_else(|| self.lost.get(key, thread)).cloned()
    }

    /// Gives a free ticket to the first waiting thread, which inherits `unanswered`. Returns the
    /// thread's unparker, for the caller to wake it outside the mutex. Removes the queue if no
    /// thread waits.
    fn pass_on(&mut self, key: &str, unanswered: Unanswered) -> Option<Unparker> {
        let queue = self.queues.get_mut(key)?;
        if queue.ticket.is_some() {
            return None;
        }
        let Some((thread, unparker)) = queue.waiting.pop_front() else {
            self.queues.remove(key);
            return None;
        };
        queue.await_reply.retain(|(waiting, _)| *waiting != thread);
        queue.ticket = Some(TicketOwner::requesting(thread, unanswered));
        Some(unparker)
    }
}

impl LockQueue {
    /// Records in the hold whether threads wait for it. Returns true if the first one has just
    /// begun to wait.
    fn note_waiters(&self) -> bool {
        let hold = self.ticket.as_ref().and_then(|ticket| ticket.hold.as_ref());
        hold.is_some_and(|hold| hold.set_waiters(!self.waiting.is_empty()))
    }

    fn has_ticket(&self, hold: &Hold) -> bool {
        let current = self.ticket.as_ref().and_then(|ticket| ticket.hold.as_ref());
        current.is_some_and(|current| current.id() == hold.id())
    }
}

impl Ticket {
    /// Begins a request. Returns since when this request and earlier ones have had no reply.
    pub(crate) fn begin_request(&self) -> Moment {
        let now = Unanswered::from_now();
        let mut locks = self.queue.0.lock();
        let queue = locks.queues.get_mut(&self.key);
        let owner = queue.and_then(|queue| queue.ticket.as_mut());
        owner
            .map_or(now, |owner| *owner.unanswered.get_or_insert(now))
            .since
    }

    /// Records a grant that does not count: only this many replicas confirmed it, which is too few.
    pub(crate) fn unreplicated(&self, confirmed: u32) {
        self.on_reply(|queue| {
            let owner = queue.ticket.as_mut();
            if let Some(unanswered) = owner.and_then(|owner| owner.unanswered.as_mut()) {
                unanswered.confirmed_replicas = Some(confirmed);
            }
        });
    }

    /// Records a reply.
    pub(crate) fn replied(&self) {
        self.on_reply(|queue| {
            if let Some(owner) = &mut queue.ticket {
                owner.unanswered = None;
            }
        });
    }

    /// Records a grant. The thread keeps the ticket until `hold` ends.
    pub(crate) fn keep(mut self, hold: Arc<Hold>) {
        self.kept = true;
        self.on_reply(|queue| {
            queue.ticket = Some(TicketOwner {
                thread: hold.thread(),
                hold: Some(hold),
                unanswered: None,
            });
            queue.note_waiters();
        });
    }

    /// Applies `update` for a reply, and wakes the threads that wait for that reply.
    fn on_reply(&self, update: impl FnOnce(&mut LockQueue)) {
        let mut locks = self.queue.0.lock();
        let Some(queue) = locks.queues.get_mut(&self.key) else {
            return;
        };
        update(queue);
        let waiting = std::mem::take(&mut queue.await_reply);
        drop(locks);
        waiting.iter().for_each(|(_, unparker)| unparker.unpark());
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let mut locks = self.queue.0.lock();
        // The next thread inherits the time since which there has been no reply.
        let queue = locks.queues.get_mut(&self.key);
        let owner = queue.and_then(|queue| queue.ticket.take());
        let unanswered = owner.and_then(|owner| owner.unanswered);
        let unanswered = unanswered.unwrap_or_else(Unanswered::from_now);
        let next = locks.pass_on(&self.key, unanswered);
        drop(locks);
        unpark(next);
    }
}

fn unpark(unparker: Option<Unparker>) {
    if let Some(unparker) = unparker {
        unparker.unpark();
    }
}
