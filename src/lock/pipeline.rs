//! One attempt at several locks of one client: all are asked for together.

use std::sync::Arc;

use super::acquire::{
    Found, Unwanted, acquire, add_level, begin, for_another_copy, found, give_back, request, take,
    too_late,
};
use super::handle::Handle;
use super::held::{Held, Needed, release_all};
use super::standing::recounted;
use crate::clock::Moment;
use crate::conn::{Answer, NoAnswer, Question, ask_batch};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lease::{Lease, Terms};
use crate::local::{Hold, Place, Turn};
use crate::owner::{Owner, ThreadId};
use crate::patience::Patience;
use crate::script::{self, Call};

/// What one attempt brought.
pub(super) struct Attempted {
    /// The first of the locks, in their order.
    pub(super) held: Vec<Held>,
    /// The turn at the next one, if that was not granted. It can be waited for.
    pub(super) refused: Option<Turn>,
}

/// Takes the first of these locks, in their order, up to the first one that is not granted. What was granted behind
/// that one is given back. If the attempt fails, all is given back.
///
/// Nothing is held and no turn is given if the patience ends while other threads of this process have the first lock.
pub(super) fn attempt(locks: &[&Handle], lease: Lease, patience: &Patience) -> Result<Attempted> {
    let Handle { core, key, .. } = locks[0];
    core.check_process(key.name())?;
    patience.check(key.name())?;
    let terms = lease.terms(core.watchdog_lease)?;
    let mut parts = line_up(locks)?;
    if parts.len() < 2 {
        let held = match parts.pop().map(|part| part.way) {
            Some(Way::First(turn)) => take(locks[0], turn, terms, patience)?,
            _ => acquire(locks[0], lease, patience)?,
        };
        return Ok(Attempted {
            held: held.into_iter().collect(),
            refused: None,
        });
    }
    for part in parts.iter_mut().rev() {
        if let Some(unanswered) = part.begin() {
            patience.silent_since(Some(unanswered));
        }
    }
    let questions: Vec<Question<'_>> = parts.iter().map(|part| part.question(terms)).collect();
    let again = |place: usize| Some(parts[place].call_again(terms));
    let answers = ask_batch(&questions, again, patience);
    let (mut kept, mut back, mut stopped) = (Vec::new(), Back::default(), None);
    for (part, answer) in parts.into_iter().zip(answers) {
        match part.came_to(terms, answer, patience) {
            Ok(granted) if stopped.is_none() => kept.push(granted),
            Ok(granted) => back.add(granted, terms),
            Err(refusal) => {
                back.unwanted.extend(refusal.unwanted);
                if stopped.is_none() {
                    stopped = Some((refusal.turn, refusal.error));
                } else {
                    back.turns.extend(refusal.turn);
                }
            }
        }
    }
    let refused = match stopped {
        Some((turn, Some(error))) => {
            back.turns.extend(turn);
            kept.into_iter()
                .for_each(|granted| back.add(granted, terms));
            back.give(core, patience);
            return Err(error);
        }
        Some((turn, None)) => turn,
        None => None,
    };
    let held = |granted| match granted {
        Granted::Lock(turn, hold) => begin(core, turn, hold, patience),
        Granted::Level(held) => held,
    };
    let held = kept.into_iter().map(held).collect();
    back.give(core, patience);
    Ok(Attempted { held, refused })
}

/// A lock that is asked for.
struct Part<'a> {
    lock: &'a Handle,
    way: Way,
    /// The owner in the newest copy of the request.
    owner: Owner,
}

/// How this thread comes to a lock.
enum Way {
    /// No thread of this process has it.
    First(Turn),
    /// This thread holds it, and will have this many levels.
    Again(Arc<Hold>, u32),
}

enum Granted {
    Lock(Turn, Arc<Hold>),
    Level(Held),
}

/// A lock that was not granted.
#[derive(Default)]
struct Refusal {
    /// With it the lock can be asked for again.
    turn: Option<Turn>,
    /// What was granted, but is of no use.
    unwanted: Option<Unwanted>,
    /// Why there is no other attempt.
    error: Option<Error>,
}

/// The locks that this thread can ask for now, up to the first one that another thread of this process has or asks
/// for.
fn line_up<'a>(locks: &[&'a Handle]) -> Result<Vec<Part<'a>>> {
    let thread = ThreadId::current();
    let mut parts = Vec::with_capacity(locks.len());
    for &lock in locks {
        let way = match lock.core.queue.enter(lock.key.key(), thread) {
            Place::Turn(turn) => Way::First(turn),
            Place::Mine(hold) => {
                hold.check()?;
                let levels = hold.count() + 1;
                Way::Again(hold, levels)
            }
            Place::Behind => break,
        };
        parts.push(Part {
            lock,
            way,
            owner: Owner::current(&lock.core.id),
        });
    }
    Ok(parts)
}

impl<'a> Part<'a> {
    /// Begins to ask. Since when threads of this process have asked for the lock without an answer.
    fn begin(&mut self) -> Option<Moment> {
        match &self.way {
            Way::First(turn) => Some(turn.ask()),
            Way::Again(hold, _) => {
                self.owner = hold.begin_count();
                None
            }
        }
    }

    fn question(&self, terms: Terms) -> Question<'a> {
        Question {
            connections: &self.lock.core.connections,
            lock: &self.lock.key,
            call: self.call(terms),
        }
    }

    fn call(&self, terms: Terms) -> Call {
        match self.way {
            Way::First(_) => request(self.lock, &self.owner, terms),
            Way::Again(_, levels) => {
                script::recount(&self.lock.key, &self.owner, levels, terms.millis)
            }
        }
    }

    /// The call in another copy of the request, while an earlier one may be under way.
    fn call_again(&mut self, terms: Terms) -> Call {
        self.owner = match &self.way {
            Way::First(_) => for_another_copy(&self.owner),
            Way::Again(hold, _) => hold.count_again(&self.owner),
        };
        self.call(terms)
    }

    fn came_to(
        self,
        terms: Terms,
        answer: Result<Answer, NoAnswer>,
        patience: &Patience,
    ) -> Result<Granted, Refusal> {
        let Handle { core, key, .. } = self.lock;
        let turn = match self.way {
            Way::First(turn) => turn,
            Way::Again(hold, _) => {
                let written = recounted(core, &hold, answer);
                let level = add_level(core, hold, terms, written);
                return level.map(Granted::Level).map_err(|error| Refusal {
                    error: Some(error),
                    ..Refusal::default()
                });
            }
        };
        let mut refusal = Refusal::default();
        match found(self.lock, self.owner, terms, answer) {
            Ok(Found::Taken(hold)) => return Ok(Granted::Lock(turn, hold)),
            Ok(Found::Held(_)) => turn.answered(),
            Ok(Found::TooLate) => {
                let error = || too_late(core, key, patience);
                refusal.error = patience.is_over().then(error);
            }
            Ok(Found::Unreplicated(unwanted, confirmed)) => {
                turn.unreplicated(confirmed);
                refusal.unwanted = Some(unwanted);
                let error = || core.connections.too_few_replicas(key, confirmed);
                refusal.error = patience.is_over().then(error);
            }
            Err(error) => refusal.error = Some(error),
        }
        refusal.turn = Some(turn);
        Err(refusal)
    }
}

/// What is to be given back.
#[derive(Default)]
struct Back {
    unwanted: Vec<Unwanted>,
    levels: Vec<Held>,
    /// They are passed on when all is given back.
    turns: Vec<Turn>,
}

impl Back {
    fn add(&mut self, granted: Granted, terms: Terms) {
        match granted {
            Granted::Lock(turn, hold) => {
                self.unwanted.push(Unwanted::new(&hold, terms));
                self.turns.push(turn);
            }
            Granted::Level(held) => self.levels.push(held),
        }
    }

    /// In what is left of the call, or in the background.
    fn give(self, core: &Core, patience: &Patience) {
        let rest = patience.rest(core.command_timeout);
        if !self.unwanted.is_empty() {
            give_back(core, self.unwanted, &rest);
        }
        if !self.levels.is_empty() {
            // What gets no answer goes on in the background.
            let _ = release_all(&self.levels, Needed::All, &rest);
        }
    }
}
