//! The way to a majority: ask all servers at once, keep what a majority grants, else give all of it back.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::acquire::{begin, queue_up, silence, take_back, withdraw};
use super::handle::Handle;
use super::held::Held;
use super::majority::{Majority, joined};
use crate::clock::Moment;
use crate::conn::{Enough, NoAnswer, Question, ask_all};
use crate::error::{Error, Result};
use crate::lease::{Terms, drift};
use crate::local::{Grant, Hold, Place, Quorum, Turn};
use crate::owner::{self, Owner, ThreadId};
use crate::patience::{Patience, by_chance};
use crate::script::{self, Attempt};
use crate::wait::Listener;

/// Between attempts while Redis does not answer; none before the second.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// Between attempts of which each got a part of the servers: short, and by chance, so that one of those who
/// share them comes before the others.
const FIRST_STEP_BACK: Duration = Duration::from_millis(4);
const LONGEST_STEP_BACK: Duration = Duration::from_millis(50);

/// Between tries where no message can tell of a release.
const POLL: Duration = Duration::from_millis(250);
const LONGEST_POLL: Duration = Duration::from_secs(2);

/// One thread's way to one lock.
pub(super) struct Contest<'a> {
    lock: &'a Majority,
    terms: &'a [Terms],
    patience: &'a Patience,
    /// At each server, whether this thread speaks for its process there.
    turns: Vec<Option<Turn>>,
    listeners: Vec<Option<Listener>>,
    /// Where others held it at the last attempt.
    elsewhere: Vec<usize>,
}

/// What one attempt found.
enum Found {
    Taken(Vec<Held>),
    /// Some servers were had, which others need as well.
    Shared,
    /// Another thread of this process has this server's part.
    Behind(usize),
    /// Others have it, for so long at least.
    Held {
        left: Duration,
        /// Some servers were had all the same.
        shared: bool,
    },
    /// Too few answered.
    Silence(Error),
}

/// What all servers said.
#[derive(Default)]
struct Said {
    granted: Vec<(usize, Grant)>,
    /// For how long others hold it, and where.
    held: Vec<(Duration, usize)>,
    /// The first server whose part another thread of this process has.
    behind: Option<usize>,
    failures: Vec<Error>,
}

impl<'a> Contest<'a> {
    pub(super) fn new(lock: &'a Majority, terms: &'a [Terms], patience: &'a Patience) -> Self {
        Self {
            lock,
            terms,
            patience,
            turns: lock.locks.iter().map(|_| None).collect(),
            listeners: lock.locks.iter().map(|_| None).collect(),
            elsewhere: Vec::new(),
        }
    }

    /// Takes the lock; `None` if the patience ends before. Whatever way this ends without the lock, the
    /// turns go to those who wait for them.
    pub(super) fn enter(mut self) -> Result<Option<Vec<Held>>> {
        let first = &self.lock.locks[0];
        let thread = ThreadId::current();
        self.turns[0] = match first.core.queue.enter(first.key.key(), thread) {
            Place::Turn(turn) => Some(turn),
            _ => queue_up(&first.core, &first.key, thread, self.patience)?,
        };
        if self.turns[0].is_none() {
            return Ok(None);
        }
        self.compete()
    }

    fn compete(&mut self) -> Result<Option<Vec<Held>>> {
        let patience = self.patience;
        let first = &self.lock.locks[0];
        let (mut pause, mut step_back) = (Duration::ZERO, FIRST_STEP_BACK);
        let mut poll = POLL;
        // Of all attempts that nobody answers together.
        let mut answer_by = None;
        loop {
            let unanswered = self.turns[0].as_ref().map(Turn::ask);
            patience.silent_since(unanswered);
            silence(&first.core, &first.key, unanswered, patience)?;
            let end = *answer_by.get_or_insert_with(|| patience.answer_by());
            let found = self.attempt()?;
            if !matches!(found, Found::Silence(_)) {
                self.turns.iter().flatten().for_each(Turn::answered);
                answer_by = None;
            }
            self.turns[1..].fill_with(|| None);
            match found {
                Found::Taken(held) => return Ok(Some(held)),
                Found::Silence(error) => {
                    patience.pause(pause.min(end.left()));
                    if end.is_past() && !patience.is_interrupted() {
                        return Err(error);
                    }
                    pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                }
                _ if patience.is_over() => return Ok(None),
                // At first they are taken for others who try as well, and step back.
                Found::Shared | Found::Held { shared: true, .. }
                    if step_back < LONGEST_STEP_BACK =>
                {
                    self.step_back(by_chance(step_back));
                    step_back = (step_back * 2).min(LONGEST_STEP_BACK);
                }
                Found::Shared => self.step_back(by_chance(step_back)),
                // In the order of the servers, as all threads do, so that no two wait for each other.
                Found::Behind(at) => {
                    let lock = &self.lock.locks[at];
                    let time = lock.core.command_timeout;
                    let briefly = patience.until(Moment::now().after(POLL), time);
                    let thread = ThreadId::current();
                    let turn = queue_up(&lock.core, &lock.key, thread, &briefly);
                    self.turns[at] = match turn {
                        // Silence at one server is for the others to make up for.
                        Err(Error::Unavailable { .. }) => None,
                        turn => turn?,
                    };
                }
                Found::Held { left, shared } => {
                    let left = if shared {
                        // Perhaps they do.
                        poll = (poll * 2).min(LONGEST_POLL);
                        left.min(by_chance(poll))
                    } else {
                        (poll, step_back) = (POLL, FIRST_STEP_BACK);
                        left
                    };
                    self.listen();
                    let nap = if self.hears_a_majority() {
                        left + first.core.stagger()
                    } else {
                        left.min(POLL)
                    };
                    let counters = &first.core.observer.counters;
                    if patience.sleep(nap) {
                        counters.wakeups_by_message.add(1);
                    } else {
                        counters.wakeups_by_timeout.add(1);
                    }
                    if shared {
                        // Those who share it are woken by one another.
                        self.step_back(by_chance(FIRST_STEP_BACK));
                    }
                }
            }
            patience.check(self.lock.name())?;
        }
    }

    /// Sleeps so long whatever messages come: those of what was just given back are among them.
    fn step_back(&self, nap: Duration) {
        let end = Moment::now().after(nap);
        while !end.is_past() && !self.patience.is_over() && !self.patience.is_interrupted() {
            self.patience.sleep(end.left());
        }
    }

    /// Listens wherever others hold it. Where it was had, nobody but those who try is to be heard.
    fn listen(&mut self) {
        for (at, lock) in self.lock.locks.iter().enumerate() {
            let (subscriber, listener) = (&lock.core.subscriber, &mut self.listeners[at]);
            let is_wanted = self.elsewhere.contains(&at) && !lock.core.connections.is_suspect();
            let is_of_use = |l: &Listener| is_wanted && subscriber.is_in_place(l, &lock.key);
            if !listener.as_ref().is_some_and(is_of_use) {
                *listener = None;
            }
            if listener.is_none() && is_wanted {
                let (waker, left) = (self.patience.waker(), self.patience.left());
                *listener = Some(subscriber.listen(&lock.key, waker, left));
            }
        }
    }

    /// Whoever gives the lock back is heard: two majorities have a server in common.
    fn hears_a_majority(&self) -> bool {
        let live = self
            .listeners
            .iter()
            .flatten()
            .filter(|listener| listener.is_live());
        live.count() >= self.lock.needed()
    }

    /// One attempt at all servers at once.
    fn attempt(&mut self) -> Result<Found> {
        let said = self.ask();
        let (needed, servers) = (self.lock.needed(), self.lock.locks.len());
        let refusals = |error: &&Error| !matches!(error, Error::Unavailable { .. });
        if said.failures.iter().filter(refusals).count() + needed > servers {
            self.undo(said.granted);
            return Err(joined(self.lock.name(), said.failures, self.patience));
        }
        let answered = said.granted.len() + said.held.len();
        if said.granted.len() >= needed {
            return Ok(self.keep(said.granted));
        }
        let missing = needed - said.granted.len();
        let is_shared = !said.granted.is_empty();
        self.undo(said.granted);
        if answered < needed {
            return Ok(Found::Silence(joined(
                self.lock.name(),
                said.failures,
                self.patience,
            )));
        }
        if let Some(at) = said.behind {
            return Ok(Found::Behind(at));
        }
        if is_shared && said.held.len() < needed {
            return Ok(Found::Shared);
        }
        let mut held = said.held;
        held.sort_unstable();
        self.elsewhere = held.iter().map(|&(_, at)| at).collect();
        Ok(Found::Held {
            left: held.get(missing - 1).map_or(POLL, |&(left, _)| left),
            shared: is_shared,
        })
    }

    fn ask(&mut self) -> Said {
        let thread = ThreadId::current();
        let mut said = Said::default();
        let mut asked = Vec::with_capacity(self.turns.len());
        for (at, lock) in self.lock.locks.iter().enumerate() {
            if self.turns[at].is_none() {
                match lock.core.queue.enter(lock.key.key(), thread) {
                    Place::Turn(turn) => self.turns[at] = Some(turn),
                    // Another thread of this process has the server by a lock over other servers.
                    _ => {
                        said.held.push((POLL, at));
                        said.behind.get_or_insert(at);
                        continue;
                    }
                }
            }
            asked.push((at, Owner::current(&lock.core.id)));
        }
        let question = |(at, owner): &(usize, Owner)| {
            let lock = &self.lock.locks[*at];
            Question {
                connections: &lock.core.connections,
                lock: &lock.key,
                call: script::acquire(&lock.key, owner, self.terms[*at].millis),
            }
        };
        if asked.len() < self.lock.needed() {
            return said;
        }
        let questions: Vec<Question<'_>> = asked.iter().map(question).collect();
        let enough = Enough {
            needed: self.lock.needed(),
            is_good: |reply| matches!(reply, Value::Nil),
        };
        let answers = ask_all(&questions, enough, self.patience);
        for ((at, owner), answer) in asked.into_iter().zip(answers) {
            let lock = &self.lock.locks[at];
            let terms = self.terms[at];
            let answer = match answer {
                Ok(answer) => answer,
                Err(NoAnswer { error, in_vain }) => {
                    take_back(&lock.core, &lock.key, owner, terms, in_vain);
                    said.failures.push(error);
                    continue;
                }
            };
            match script::attempt(&answer.reply) {
                Ok(Attempt::Taken(token)) => said.granted.push((
                    at,
                    Grant {
                        owner,
                        asked: answer.asked,
                        terms,
                        token,
                    },
                )),
                Ok(Attempt::Held(millis)) => {
                    let left = millis.map_or(POLL, Duration::from_millis);
                    said.held.push((left, at));
                }
                Err(error) => {
                    let refusal = lock.core.connections.refusal(&lock.key, error);
                    said.failures.push(refusal);
                }
            }
        }
        said
    }

    /// Holds what was granted, if that is a majority still.
    fn keep(&mut self, granted: Vec<(usize, Grant)>) -> Found {
        let now = Moment::now();
        let lives = |(_, grant): &&(usize, Grant)| {
            let lease = Duration::from_millis(grant.terms.millis);
            now < grant.asked.after(lease - drift(lease))
        };
        if granted.iter().filter(lives).count() < self.lock.needed() {
            let cause = "the answers came after the end of the leases that they granted";
            let first = &self.lock.locks[0];
            let connections = &first.core.connections;
            let error = connections.unavailable(&first.key, self.patience, cause.into());
            self.undo(granted);
            return Found::Silence(error);
        }
        let mut held = Vec::with_capacity(granted.len());
        for (at, grant) in granted {
            let Handle { core, key, .. } = &self.lock.locks[at];
            let observer = Arc::clone(&core.observer);
            let hold = Arc::new(Hold::new(key.clone(), grant, &core.queue, observer));
            // It has the turn, or would not have asked.
            if let Some(turn) = self.turns[at].take() {
                held.push(begin(core, turn, hold, self.patience));
            }
        }
        let holds: Vec<Arc<Hold>> = held.iter().map(|held| Arc::clone(&held.hold)).collect();
        Quorum::bind(&holds, self.lock.needed());
        Found::Taken(held)
    }

    /// Gives back what a minority granted, here or in the background.
    fn undo(&self, granted: Vec<(usize, Grant)>) {
        let question = |(at, grant): &(usize, Grant)| {
            let lock = &self.lock.locks[*at];
            Question {
                connections: &lock.core.connections,
                lock: &lock.key,
                call: script::release(&lock.key, &grant.owner),
            }
        };
        let questions: Vec<Question<'_>> = granted.iter().map(question).collect();
        let enough = Enough {
            needed: questions.len(),
            is_good: |_| true,
        };
        let answers = ask_all(&questions, enough, self.patience);
        for ((at, grant), answer) in granted.into_iter().zip(answers) {
            if answer.is_err() {
                let lock = &self.lock.locks[at];
                owner::retire();
                withdraw(&lock.core, &lock.key, grant.owner, grant.terms);
            }
        }
    }
}
