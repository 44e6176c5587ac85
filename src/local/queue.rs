//! The queue at home: of all threads of a client that want a lock, one at a time may ask Redis.
//!
//! A thread that finds the lock with another thread of its own process waits here, first come first
//! served, and costs Redis nothing. Whoever has the turn asks Redis, and keeps the turn as long as
//! it holds the lock.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::hold::Hold;
use super::silence::Silence;
use crate::clock::Moment;
use crate::owner::ThreadId;
use crate::wake::Waker;

/// All names that threads of this client hold or want, by key.
///
/// Its mutex protects: a name has at most one turn, and a turn that is passed on has reached its
/// next thread before anybody can see it free.
#[derive(Debug, Default)]
pub(crate) struct LocalQueue(Mutex<HashMap<Arc<str>, Name>>);

#[derive(Debug, Default)]
struct Name {
    turn: Option<Holder>,
    line: VecDeque<(ThreadId, Waker)>,
    /// Lost holds that their threads have not unlocked yet. They no longer keep anybody waiting.
    lost: Vec<Arc<Hold>>,
}

#[derive(Debug)]
struct Holder {
    thread: ThreadId,
    /// `None` while the thread asks Redis.
    hold: Option<Arc<Hold>>,
    /// Since when it, and whoever had the turn before it, has asked in vain.
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
    Turn(Turn),
    /// Another thread of this process holds the lock or asks for it.
    Behind,
}

/// The right of one thread to ask Redis for a name. Dropped, it goes to the next in line.
#[derive(Debug)]
pub(crate) struct Turn {
    queue: Arc<LocalQueue>,
    key: Arc<str>,
    kept: bool,
}

impl LocalQueue {
    pub(crate) fn enter(self: &Arc<Self>, key: &Arc<str>, thread: ThreadId) -> Place {
        let mut names = self.0.lock();
        if let Some(hold) = names.get(key).and_then(|name| name.hold_of(thread)) {
            return Place::Mine(hold);
        }
        let name = names.entry(Arc::clone(key)).or_default();
        if name.turn.is_some() {
            return Place::Behind;
        }
        name.turn = Some(Holder::asking(thread, Silence::from_now()));
        Place::Turn(self.turn(key))
    }

    /// Lines up behind the others; `waker` is woken when the turn has come. The turn itself, if it
    /// has become free meanwhile.
    pub(crate) fn line_up(
        self: &Arc<Self>,
        key: &Arc<str>,
        thread: ThreadId,
        waker: &Waker,
    ) -> Option<Turn> {
        let mut names = self.0.lock();
        let name = names.entry(Arc::clone(key)).or_default();
        if name.turn.is_none() {
            name.turn = Some(Holder::asking(thread, Silence::from_now()));
            return Some(self.turn(key));
        }
        name.line.push_back((thread, waker.clone()));
        None
    }

    /// The turn of a thread in line, if it has come.
    pub(crate) fn take_turn(self: &Arc<Self>, key: &Arc<str>, thread: ThreadId) -> Option<Turn> {
        let names = self.0.lock();
        let turn = names.get(key)?.turn.as_ref()?;
        (turn.thread == thread).then(|| self.turn(key))
    }

    /// Takes a thread out of the line. The turn, if it came first.
    pub(crate) fn leave(self: &Arc<Self>, key: &Arc<str>, thread: ThreadId) -> Option<Turn> {
        let mut names = self.0.lock();
        let name = names.get_mut(key)?;
        if name.turn.as_ref().is_some_and(|turn| turn.thread == thread) {
            return Some(self.turn(key));
        }
        name.line.retain(|(waiting, _)| *waiting != thread);
        None
    }

    /// Since when the thread with the turn asks Redis in vain; `None` if it has its answer.
    pub(crate) fn unanswered(&self, key: &str) -> Option<Moment> {
        self.silence(key).map(|silence| silence.since)
    }

    /// Whether nobody here knows that the lock is not to be had: nobody asks, or who does has asked in vain since `heard`
    /// or before.
    pub(crate) fn is_open(&self, key: &str, heard: Moment) -> bool {
        let names = self.0.lock();
        let turn = names.get(key).and_then(|name| name.turn.as_ref());
        turn.is_none_or(|turn| {
            turn.unanswered
                .is_some_and(|silence| silence.since <= heard)
        })
    }

    /// How many replicas confirmed the lock, too few, when the thread with the turn was granted it last.
    pub(crate) fn confirmed(&self, key: &str) -> Option<u32> {
        self.silence(key)?.confirmed
    }

    fn silence(&self, key: &str) -> Option<Silence> {
        self.0.lock().get(key)?.turn.as_ref()?.unanswered
    }

    /// The hold of this thread, lost or not, that it has not unlocked.
    pub(crate) fn hold_of(&self, key: &str, thread: ThreadId) -> Option<Arc<Hold>> {
        self.0.lock().get(key)?.hold_of(thread)
    }

    /// The hold that keeps the others waiting, whose ever it is.
    pub(crate) fn standing_hold(&self, key: &str) -> Option<Arc<Hold>> {
        self.0.lock().get(key)?.turn.as_ref()?.hold.clone()
    }

    /// A lost hold keeps nobody waiting any more, though its thread has yet to unlock it.
    pub(crate) fn lost(&self, hold: &Hold) {
        let mut names = self.0.lock();
        let Some(name) = names.get_mut(hold.key().key()) else {
            return;
        };
        if name.stands(hold)
            && let Some(lost) = name.turn.take().and_then(|turn| turn.hold)
        {
            name.lost.push(lost);
        }
        let next = name.pass_on(Silence::from_now());
        drop(names);
        wake(next);
    }

    /// Forgets a hold that its thread has unlocked.
    pub(crate) fn close(&self, hold: &Hold) {
        let mut names = self.0.lock();
        let Some(name) = names.get_mut(hold.key().key()) else {
            return;
        };
        let ended = if name.stands(hold) {
            name.turn.take().and_then(|turn| turn.hold)
        } else {
            let place = name.lost.iter().position(|lost| lost.id() == hold.id());
            place.map(|at| name.lost.swap_remove(at))
        };
        let next = name.pass_on(Silence::from_now());
        if name.is_empty() {
            names.remove(hold.key().key());
        }
        drop(names);
        drop(ended);
        wake(next);
    }

    fn turn(self: &Arc<Self>, key: &Arc<str>) -> Turn {
        Turn {
            queue: Arc::clone(self),
            key: Arc::clone(key),
            kept: false,
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl Name {
    fn hold_of(&self, thread: ThreadId) -> Option<Arc<Hold>> {
        let standing = self.turn.iter().filter_map(|turn| turn.hold.as_ref());
        standing
            .chain(&self.lost)
            .find(|hold| hold.thread() == thread)
            .cloned()
    }

    fn stands(&self, hold: &Hold) -> bool {
        let standing = self.turn.as_ref().and_then(|turn| turn.hold.as_ref());
        standing.is_some_and(|standing| standing.id() == hold.id())
    }

    /// Gives a free turn to the first in line, who is to be woken then, and inherits `silence`.
    fn pass_on(&mut self, silence: Silence) -> Option<Waker> {
        if self.turn.is_some() {
            return None;
        }
        let (thread, waker) = self.line.pop_front()?;
        self.turn = Some(Holder::asking(thread, silence));
        Some(waker)
    }

    fn is_empty(&self) -> bool {
        self.turn.is_none() && self.line.is_empty() && self.lost.is_empty()
    }
}

impl Turn {
    /// Begins a question; since when it, or an earlier one, has had no answer.
    pub(crate) fn ask(&self) -> Moment {
        let now = Silence::from_now();
        self.holder(|holder| *holder.unanswered.get_or_insert(now))
            .unwrap_or(now)
            .since
    }

    /// Redis answered, but what it granted was worth nothing: too few replicas confirmed it.
    pub(crate) fn unreplicated(&self, confirmed: u32) {
        self.holder(|holder| {
            if let Some(silence) = &mut holder.unanswered {
                silence.confirmed = Some(confirmed);
            }
        });
    }

    /// Redis answered.
    pub(crate) fn answered(&self) {
        self.holder(|holder| holder.unanswered = None);
    }

    fn holder<T>(&self, act: impl FnOnce(&mut Holder) -> T) -> Option<T> {
        let mut names = self.queue.0.lock();
        names.get_mut(&self.key)?.turn.as_mut().map(act)
    }

    /// Keeps the turn for as long as `hold` stands.
    pub(crate) fn keep(mut self, hold: Arc<Hold>) {
        self.kept = true;
        let mut names = self.queue.0.lock();
        let name = names.entry(Arc::clone(&self.key)).or_default();
        name.turn = Some(Holder {
            thread: hold.thread(),
            hold: Some(hold),
            unanswered: None,
        });
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let mut names = self.queue.0.lock();
        let Some(name) = names.get_mut(&self.key) else {
            return;
        };
        // Whoever comes next inherits the silence: all who wait have waited through it.
        let silence = name.turn.take().and_then(|turn| turn.unanswered);
        let next = name.pass_on(silence.unwrap_or_else(Silence::from_now));
        if name.is_empty() {
            names.remove(&self.key);
        }
        drop(names);
        wake(next);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
