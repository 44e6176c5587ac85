//! The queue at home: of all threads of a client that want a lock, one at a time may ask Redis.
//!
//! A thread that finds the lock with another thread of its own process waits here, first come first
//! served, and costs Redis nothing. Whoever has the ticket asks Redis, and keeps the ticket as long as
//! it holds the lock.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::hold::Hold;
use super::lost::LostHolds;
use super::silence::Silence;
use crate::base::clock::Moment;
use crate::base::owner::ThreadId;
use crate::base::parker::Unparker;

/// All names that threads of this client hold or want, by key.
///
/// Its mutex protects: a name has at most one ticket; a ticket that is passed on reaches the next
/// thread before any thread can see it free; a hold knows whether threads wait for it; a reply
/// wakes the threads that wait for it.
#[derive(Debug, Default)]
pub(crate) struct LocalQueue(Mutex<Names>);

#[derive(Debug, Default)]
struct Names {
    wanted: HashMap<Arc<str>, Name>,
    /// No thread waits for these.
    lost: LostHolds,
}

/// A name that a thread holds, asks for, or waits for.
#[derive(Debug, Default)]
struct Name {
    ticket: Option<Holder>,
    line: VecDeque<(ThreadId, Unparker)>,
    /// Threads in the line whose own wait is over. They wait for the reply to the thread with the
    /// ticket.
    await_reply: Vec<(ThreadId, Unparker)>,
}

#[derive(Debug)]
struct Holder {
    thread: ThreadId,
    /// `None` while the thread asks Redis.
    hold: Option<Arc<Hold>>,
    /// Since when it, and whoever had the ticket before it, has asked in vain.
    unanswered: Option<Silence>,
}

impl Holder {
    fn asking(thread: ThreadId, silence: Silence) -> Self {
        Self {
            thread,
            hold: None,
            unanswered: Some(silence),
        }
    }
}

/// What a thread finds when it comes for a lock.
#[derive(Debug)]
pub(crate) enum Place {
    /// The thread holds the lock, or has lost it and not yet unlocked it.
    Mine(Arc<Hold>),
    /// It may ask Redis.
    Ticket(Ticket),
    /// Another thread of this process holds the lock or asks for it.
    Behind,
}

/// What a thread finds when it lines up.
#[derive(Debug)]
pub(crate) enum LinedUp {
    /// The ticket has become free meanwhile.
    Ticket(Ticket),
    /// It is in line. `first`: it is the first to wait for the hold of another thread.
    Behind { first: bool },
}

/// The right of one thread to ask Redis for a name. Dropped, it goes to the next in line.
#[derive(Debug)]
pub(crate) struct Ticket {
    queue: Arc<LocalQueue>,
    key: Arc<str>,
    kept: bool,
}

impl LocalQueue {
    pub(crate) fn enter(self: &Arc<Self>, key: &Arc<str>, thread: ThreadId) -> Place {
        let mut names = self.0.lock();
        if let Some(hold) = names.hold_of(key, thread) {
            return Place::Mine(hold);
        }
        let name = names.wanted.entry(Arc::clone(key)).or_default();
        if name.ticket.is_some() {
            return Place::Behind;
        }
        name.ticket = Some(Holder::asking(thread, Silence::from_now()));
        Place::Ticket(self.ticket(key))
    }

    /// Lines up behind the others; `unparker` is woken when the ticket has come.
    pub(crate) fn line_up(
        self: &Arc<Self>,
        key: &Arc<str>,
        thread: ThreadId,
        unparker: &Unparker,
    ) -> LinedUp {
        let mut names = self.0.lock();
        let name = names.wanted.entry(Arc::clone(key)).or_default();
        if name.ticket.is_none() {
            name.ticket = Some(Holder::asking(thread, Silence::from_now()));
            return LinedUp::Ticket(self.ticket(key));
        }
        name.line.push_back((thread, unparker.clone()));
        LinedUp::Behind {
            first: name.note_waiters(),
        }
    }

    /// Also wakes a thread in line when the thread with the ticket gets a reply.
    pub(crate) fn await_reply(&self, key: &str, thread: ThreadId, unparker: &Unparker) {
        if let Some(name) = self.0.lock().wanted.get_mut(key) {
            name.await_reply.push((thread, unparker.clone()));
        }
    }

    /// The ticket of a thread in line, if it has come.
    pub(crate) fn take_turn(self: &Arc<Self>, key: &Arc<str>, thread: ThreadId) -> Option<Ticket> {
        let names = self.0.lock();
        let ticket = names.wanted.get(key)?.ticket.as_ref()?;
        (ticket.thread == thread).then(|| self.ticket(key))
    }

    /// Takes a thread out of the line. The ticket, if it came first.
    pub(crate) fn leave(self: &Arc<Self>, key: &Arc<str>, thread: ThreadId) -> Option<Ticket> {
        let mut names = self.0.lock();
        let name = names.wanted.get_mut(key)?;
        if name
            .ticket
            .as_ref()
            .is_some_and(|ticket| ticket.thread == thread)
        {
            return Some(self.ticket(key));
        }
        name.line.retain(|(waiting, _)| *waiting != thread);
        name.await_reply.retain(|(waiting, _)| *waiting != thread);
        name.note_waiters();
        None
    }

    /// Since when the thread with the ticket asks Redis in vain; `None` if it has its answer.
    pub(crate) fn unanswered(&self, key: &str) -> Option<Moment> {
        self.silence(key).map(|silence| silence.since)
    }

    /// Whether nobody here knows that the lock is not to be had: nobody asks, or who does has asked in vain since `heard`
    /// or before.
    pub(crate) fn is_open(&self, key: &str, heard: Moment) -> bool {
        let names = self.0.lock();
        let ticket = names.wanted.get(key).and_then(|name| name.ticket.as_ref());
        ticket.is_none_or(|ticket| {
            ticket
                .unanswered
                .is_some_and(|silence| silence.since <= heard)
        })
    }

    /// How many replicas confirmed the lock, too few, when the thread with the ticket was granted it last.
    pub(crate) fn confirmed(&self, key: &str) -> Option<u32> {
        self.silence(key)?.confirmed
    }

    fn silence(&self, key: &str) -> Option<Silence> {
        self.0.lock().wanted.get(key)?.ticket.as_ref()?.unanswered
    }

    /// The hold of this thread, lost or not, that it has not unlocked.
    pub(crate) fn hold_of(&self, key: &Arc<str>, thread: ThreadId) -> Option<Arc<Hold>> {
        self.0.lock().hold_of(key, thread)
    }

    /// The hold that keeps the others waiting, whose ever it is.
    pub(crate) fn standing_hold(&self, key: &str) -> Option<Arc<Hold>> {
        self.0.lock().wanted.get(key)?.ticket.as_ref()?.hold.clone()
    }

    /// A lost hold keeps no thread waiting any more, though its thread has yet to unlock it.
    pub(crate) fn lost(&self, hold: &Hold) {
        let mut guard = self.0.lock();
        let names = &mut *guard;
        let Some(name) = names.wanted.get_mut(hold.key().key()) else {
            return;
        };
        let mut unneeded = Vec::new();
        if name.stands(hold)
            && let Some(lost) = name.ticket.take().and_then(|ticket| ticket.hold)
        {
            lost.set_waiters(false);
            unneeded = names.lost.insert(lost);
        }
        let next = names.pass_on(hold.key().key(), Silence::from_now());
        drop(guard);
        drop(unneeded);
        unpark(next);
    }

    /// Forgets a hold that its thread has unlocked.
    pub(crate) fn close(&self, hold: &Hold) {
        let mut names = self.0.lock();
        let name = names.wanted.get_mut(hold.key().key());
        let ended = match name.filter(|name| name.stands(hold)) {
            Some(name) => name.ticket.take().and_then(|ticket| ticket.hold),
            None => names.lost.remove(hold),
        };
        let next = names.pass_on(hold.key().key(), Silence::from_now());
        drop(names);
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
        let names = self.0.lock();
        names.wanted.is_empty() && names.lost.is_empty()
    }
}

impl Names {
    fn hold_of(&self, key: &Arc<str>, thread: ThreadId) -> Option<Arc<Hold>> {
        let ticket = self.wanted.get(key).and_then(|name| name.ticket.as_ref());
        let standing = ticket.and_then(|ticket| ticket.hold.as_ref());
        let standing = standing.filter(|hold| hold.thread() == thread);
        standing.or_else(|| self.lost.get(key, thread)).cloned()
    }

    /// Gives a free ticket to the first thread in line, with `silence`. Returns the thread's unparker,
    /// for the caller to wake it outside the mutex. Removes a name that no thread wants.
    fn pass_on(&mut self, key: &str, silence: Silence) -> Option<Unparker> {
        let name = self.wanted.get_mut(key)?;
        if name.ticket.is_some() {
            return None;
        }
        let Some((thread, unparker)) = name.line.pop_front() else {
            self.wanted.remove(key);
            return None;
        };
        name.await_reply.retain(|(waiting, _)| *waiting != thread);
        name.ticket = Some(Holder::asking(thread, silence));
        Some(unparker)
    }
}

impl Name {
    /// Notes at the hold whether threads wait for it. Returns true if threads have just begun to.
    fn note_waiters(&self) -> bool {
        let hold = self.ticket.as_ref().and_then(|ticket| ticket.hold.as_ref());
        hold.is_some_and(|hold| hold.set_waiters(!self.line.is_empty()))
    }

    fn stands(&self, hold: &Hold) -> bool {
        let standing = self.ticket.as_ref().and_then(|ticket| ticket.hold.as_ref());
        standing.is_some_and(|standing| standing.id() == hold.id())
    }
}

impl Ticket {
    /// Begins a question; since when it, or an earlier one, has had no answer.
    pub(crate) fn ask(&self) -> Moment {
        let now = Silence::from_now();
        let mut names = self.queue.0.lock();
        let name = names.wanted.get_mut(&self.key);
        let holder = name.and_then(|name| name.ticket.as_mut());
        holder
            .map_or(now, |holder| *holder.unanswered.get_or_insert(now))
            .since
    }

    /// Redis answered, but what it granted was worth nothing: too few replicas confirmed it.
    pub(crate) fn unreplicated(&self, confirmed: u32) {
        self.replied(|name| {
            let holder = name.ticket.as_mut();
            if let Some(silence) = holder.and_then(|holder| holder.unanswered.as_mut()) {
                silence.confirmed = Some(confirmed);
            }
        });
    }

    /// Redis answered.
    pub(crate) fn answered(&self) {
        self.replied(|name| {
            if let Some(holder) = &mut name.ticket {
                holder.unanswered = None;
            }
        });
    }

    /// Keeps the ticket for as long as `hold` stands.
    pub(crate) fn keep(mut self, hold: Arc<Hold>) {
        self.kept = true;
        self.replied(|name| {
            name.ticket = Some(Holder {
                thread: hold.thread(),
                hold: Some(hold),
                unanswered: None,
            });
            name.note_waiters();
        });
    }

    /// Notes a reply, and wakes the threads that wait for it.
    fn replied(&self, note: impl FnOnce(&mut Name)) {
        let mut names = self.queue.0.lock();
        let Some(name) = names.wanted.get_mut(&self.key) else {
            return;
        };
        note(name);
        let waiting = std::mem::take(&mut name.await_reply);
        drop(names);
        waiting.iter().for_each(|(_, unparker)| unparker.unpark());
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let mut names = self.queue.0.lock();
        // The next thread inherits the time since which there has been no reply.
        let name = names.wanted.get_mut(&self.key);
        let ticket = name.and_then(|name| name.ticket.take());
        let silence = ticket.and_then(|ticket| ticket.unanswered);
        let silence = silence.unwrap_or_else(Silence::from_now);
        let next = names.pass_on(&self.key, silence);
        drop(names);
        unpark(next);
    }
}

fn unpark(unparker: Option<Unparker>) {
    if let Some(unparker) = unparker {
        unparker.unpark();
    }
}
