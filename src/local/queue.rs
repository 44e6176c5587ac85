//! The queue at home: of all threads of a client that want a lock, one at a time may ask Redis.
//!
//! A thread that finds the lock with another thread of its own process waits here, first come first
//! served, and costs Redis nothing. Whoever has the turn asks Redis, and keeps the turn as long as
//! it holds the lock.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::hold::Hold;
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
    unanswered: Option<Moment>,
}

impl Holder {
    fn asking(thread: ThreadId, since: Moment) -> Self {
        Self {
            thread,
            hold: None,
            unanswered: Some(since),
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
        name.turn = Some(Holder::asking(thread, Moment::now()));
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
            name.turn = Some(Holder::asking(thread, Moment::now()));
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
        let next = name.pass_on(Moment::now());
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
        let next = name.pass_on(Moment::now());
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

    /// Gives a free turn to the first in line, who is to be woken then. `since` is when the first
    /// question to Redis that nobody answered yet was asked, or now.
    fn pass_on(&mut self, since: Moment) -> Option<Waker> {
        if self.turn.is_some() {
            return None;
        }
        let (thread, waker) = self.line.pop_front()?;
        self.turn = Some(Holder::asking(thread, since));
        Some(waker)
    }

    fn is_empty(&self) -> bool {
        self.turn.is_none() && self.line.is_empty() && self.lost.is_empty()
    }
}

impl Turn {
    /// Begins a question; since when it, or an earlier one, has had no answer.
    pub(crate) fn ask(&self) -> Moment {
        let now = Moment::now();
        self.holder(|holder| *holder.unanswered.get_or_insert(now))
            .unwrap_or(now)
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
        let next = name.pass_on(silence.unwrap_or_else(Moment::now));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::hold::tests::hold;
    use crate::wake::pair;
    use std::time::Duration;

    fn thread(number: u64) -> ThreadId {
        ThreadId::numbered(number)
    }

    fn turn(queue: &Arc<LocalQueue>, key: &Arc<str>, number: u64) -> Turn {
        match queue.enter(key, thread(number)) {
            Place::Turn(turn) => turn,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_turn_goes_down_the_line_in_order() {
        let queue = Arc::new(LocalQueue::default());
        let key: Arc<str> = "k".into();
        let first = turn(&queue, &key, 1);
        let (second_waker, second) = pair();
        let (third_waker, third) = pair();
        assert!(queue.line_up(&key, thread(2), &second_waker).is_none());
        assert!(queue.line_up(&key, thread(3), &third_waker).is_none());
        // Nobody who comes later goes before them.
        assert!(matches!(queue.enter(&key, thread(4)), Place::Behind));

        drop(first);
        assert!(second.sleep(Duration::ZERO));
        assert!(!third.sleep(Duration::ZERO));
        assert!(queue.take_turn(&key, thread(3)).is_none());
        let second = queue.take_turn(&key, thread(2)).unwrap();

        drop(second);
        assert!(third.sleep(Duration::ZERO));
        drop(queue.take_turn(&key, thread(3)));
        assert!(queue.is_empty(), "nothing is left of a name nobody wants");
    }

    #[test]
    fn a_silence_of_redis_is_inherited_until_it_answers() {
        let queue = Arc::new(LocalQueue::default());
        let key: Arc<str> = "k".into();
        let first = turn(&queue, &key, 1);
        let since = first.ask();
        let (waker, _sleeper) = pair();
        assert!(queue.line_up(&key, thread(2), &waker).is_none());
        assert!(queue.line_up(&key, thread(3), &waker).is_none());
        assert_eq!(queue.unanswered(&key), Some(since));

        drop(first);
        let second = queue.take_turn(&key, thread(2)).unwrap();
        assert_eq!(second.ask(), since);
        second.answered();
        assert_eq!(queue.unanswered(&key), None);
        drop(second);
        let third = queue.take_turn(&key, thread(3)).unwrap();
        assert!(third.ask() > since);
    }

    #[test]
    fn a_turn_that_comes_while_its_thread_leaves_is_not_lost() {
        let queue = Arc::new(LocalQueue::default());
        let key: Arc<str> = "k".into();
        let first = turn(&queue, &key, 1);
        let (waker, _sleeper) = pair();
        assert!(queue.line_up(&key, thread(2), &waker).is_none());
        drop(first);
        assert!(queue.leave(&key, thread(2)).is_some());
        assert!(queue.is_empty());
    }

    #[test]
    fn a_thread_that_leaves_the_line_is_passed_over() {
        let queue = Arc::new(LocalQueue::default());
        let key: Arc<str> = "k".into();
        let first = turn(&queue, &key, 1);
        let (waker, _sleeper) = pair();
        assert!(queue.line_up(&key, thread(2), &waker).is_none());
        assert!(queue.leave(&key, thread(2)).is_none());
        drop(first);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_lost_hold_keeps_nobody_waiting_but_is_remembered_until_it_is_unlocked() {
        let queue = Arc::new(LocalQueue::default());
        let hold = hold(&queue, thread(1));
        let key = Arc::clone(hold.key().key());
        turn(&queue, &key, 1).keep(Arc::clone(&hold));
        assert!(matches!(queue.enter(&key, thread(1)), Place::Mine(_)));
        assert!(matches!(queue.enter(&key, thread(2)), Place::Behind));

        queue.lost(&hold);
        let second = turn(&queue, &key, 2);
        assert!(matches!(queue.enter(&key, thread(1)), Place::Mine(_)));

        queue.close(&hold);
        assert!(matches!(queue.enter(&key, thread(1)), Place::Behind));
        drop(second);
        assert!(queue.is_empty());
    }

    #[test]
    fn closing_a_hold_passes_its_turn_on() {
        let queue = Arc::new(LocalQueue::default());
        let hold = hold(&queue, thread(1));
        let key = Arc::clone(hold.key().key());
        turn(&queue, &key, 1).keep(Arc::clone(&hold));
        let (waker, sleeper) = pair();
        assert!(queue.line_up(&key, thread(2), &waker).is_none());
        queue.close(&hold);
        assert!(sleeper.sleep(Duration::ZERO));
        assert!(queue.hold_of(&key, thread(1)).is_none());
        drop(queue.take_turn(&key, thread(2)));
        assert!(queue.is_empty());
    }
}
