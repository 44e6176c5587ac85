//! One attempt at several locks of one client: all are asked for together.

use std::sync::Arc;

use super::acquire::{
    Found, Unwanted, acquire, add_level, begin, for_another_copy, found, give_back, request, take,
    too_late,
};
use super::handle::Handle;
use super::held::{Held, Needed, release_all};
use super::standing::recounted;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::owner::{OwnerId, ThreadId};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lease::{Lease, Terms};
use crate::local::{Hold, QueueEntry, Ticket};
use crate::request::{NoReply, Reply, Request, request_batch};
use crate::script::{self, Call};

/// What one attempt brought.
pub(super) struct Attempted {
    /// The first of the locks, in their order.
    pub(super) held: Vec<Held>,
    /// The first lock that was not granted; `None` if all were granted or the wait ended.
    pub(super) missing: Option<Missing>,
}

/// A lock that was not granted. It is to be asked for alone.
pub(super) struct Missing {
    /// The thread's ticket, unless it holds the lock and asked for a further level.
    ticket: Option<Ticket>,
    /// There was no answer.
    pub(super) is_unanswered: bool,
}

impl Missing {
    fn new(ticket: Option<Ticket>) -> Self {
        Self {
            ticket,
            is_unanswered: false,
        }
    }

    /// Asks for the lock, and waits for it, behind other threads of this process, too.
    pub(super) fn take(
        self,
        lock: &Handle,
        lease: Lease,
        budget: &CallBudget,
    ) -> Result<Attempted> {
        let held = match self.ticket {
            Some(ticket) => take(lock, ticket, lease.terms(lock.core.watchdog_lease)?, budget)?,
            None => acquire(lock, lease, budget)?,
        };
        Ok(Attempted {
            held: held.into_iter().collect(),
            missing: None,
        })
    }
}

/// Takes the first of these locks, in their order, up to the first one that is not granted. What
/// was granted behind that one is given back. If the attempt fails, all is given back.
pub(super) fn attempt(locks: &[&Handle], lease: Lease, budget: &CallBudget) -> Result<Attempted> {
    let Handle { core, key, .. } = locks[0];
    core.check_process(key.name())?;
    budget.check_interrupt(key.name())?;
    let terms = lease.terms(core.watchdog_lease)?;
    let mut parts = line_up(locks)?;
    if parts.len() < 2 {
        let ticket = parts.pop().and_then(|part| part.way.ticket());
        let missing = Missing::new(ticket);
        return missing.take(locks[0], lease, budget);
    }
    let since = parts.iter_mut().filter_map(Part::begin).min();
    budget.set_unanswered_since(Some(since.unwrap_or_else(Moment::now)));
    let requests: Vec<Request<'_>> = parts.iter().map(|part| part.question(terms)).collect();
    let again = |place: usize| Some(parts[place].call_again(terms));
    // Time for two copies of a request. Granted locks are not renewed before this ends, and those
    // behind a refused lock stay taken until then.
    let briefly = Moment::now().after(core.command_timeout * 2);
    let reply_deadline = budget.reply_deadline().min(briefly);
    let answers = request_batch(&requests, again, reply_deadline, budget);
    let (mut kept, mut back, mut stopped) = (Vec::new(), Back::default(), None);
    for (part, answer) in parts.into_iter().zip(answers) {
        match part.came_to(terms, answer, budget) {
            Ok(granted) if stopped.is_none() => kept.push(granted),
            Ok(granted) => back.add(granted, terms),
            Err(refusal) => {
                back.unwanted.extend(refusal.unwanted);
                if stopped.is_none() {
                    stopped = Some((refusal.missing, refusal.error));
                } else {
                    back.turns.extend(refusal.missing.ticket);
                }
            }
        }
    }
    let missing = match stopped {
        Some((missing, Some(error))) => {
            back.turns.extend(missing.ticket);
            kept.into_iter()
                .for_each(|granted| back.add(granted, terms));
            back.undo(core, budget);
            return Err(error);
        }
        Some((missing, None)) => Some(missing),
        None => None,
    };
    let held = |granted| match granted {
        Granted::Lock(ticket, hold) => begin(core, ticket, hold, budget),
        Granted::Level(held) => held,
    };
    let held = kept.into_iter().map(held).collect();
    back.undo(core, budget);
    Ok(Attempted { held, missing })
}

/// A lock that is asked for.
struct Part<'a> {
    lock: &'a Handle,
    way: Way,
    /// The owner in the newest copy of the request.
    owner: OwnerId,
}

/// How this thread comes to a lock.
enum Way {
    /// No thread of this process has it.
    First(Ticket),
    /// This thread holds it, and will have this many levels.
    Again(Arc<Hold>, u32),
}

enum Granted {
    Lock(Ticket, Arc<Hold>),
    Level(Held),
}

/// A lock that was not granted.
struct Refusal {
    missing: Missing,
    /// What was granted, but is of no use.
    unwanted: Option<Unwanted>,
    /// Why it is not asked for again.
    error: Option<Error>,
}

impl Way {
    fn ticket(self) -> Option<Ticket> {
        match self {
            Self::First(ticket) => Some(ticket),
            Self::Again(..) => None,
        }
    }
}

/// The locks that this thread can ask for now, up to the first one that another thread of this
/// process has or asks for.
fn line_up<'a>(locks: &[&'a Handle]) -> Result<Vec<Part<'a>>> {
    let thread = ThreadId::current();
    let mut parts = Vec::with_capacity(locks.len());
    for &lock in locks {
        let way = match lock.core.queue.enter(lock.key.key(), thread) {
            QueueEntry::Front(ticket) => Way::First(ticket),
            QueueEntry::Held(hold) => {
                hold.check()?;
                let levels = hold.count() + 1;
                Way::Again(hold, levels)
            }
            QueueEntry::Queued => break,
        };
        parts.push(Part {
            lock,
            way,
            owner: OwnerId::current(&lock.core.id),
        });
    }
    Ok(parts)
}

impl<'a> Part<'a> {
    /// Begins to ask. Since when threads of this process have asked for the lock without an answer.
    fn begin(&mut self) -> Option<Moment> {
        match &self.way {
            Way::First(ticket) => Some(ticket.begin_request()),
            Way::Again(hold, _) => {
                self.owner = hold.begin_count();
                None
            }
        }
    }

    fn question(&self, terms: Terms) -> Request<'a> {
        Request {
            client: &self.lock.core.redis,
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
            Way::Again(hold, _) => hold.retry_count(&self.owner),
        };
        self.call(terms)
    }

    fn came_to(
        self,
        terms: Terms,
        answer: Result<Reply, NoReply>,
        budget: &CallBudget,
    ) -> Result<Granted, Box<Refusal>> {
        let Handle { core, key, .. } = self.lock;
        let is_over = budget.is_wait_over();
        let ticket = match self.way {
            Way::First(ticket) => ticket,
            Way::Again(hold, _) => {
                let written = recounted(core, &hold, answer);
                let level = add_level(core, hold, terms, written);
                return level
                    .map(Granted::Level)
                    .map_err(|error| Box::new(Refusal::of(None).failed(error, is_over)));
            }
        };
        let refusal = match found(self.lock, self.owner, terms, answer) {
            Ok(Found::Taken(hold)) => return Ok(Granted::Lock(ticket, hold)),
            Ok(Found::Held(_)) => {
                ticket.replied();
                Refusal::of(Some(ticket))
            }
            Ok(Found::TooLate) => Refusal {
                error: is_over.then(|| too_late(core, key, budget)),
                ..Refusal::of(Some(ticket))
            },
            Ok(Found::Unreplicated(unwanted, confirmed)) => {
                ticket.unreplicated(confirmed);
                Refusal {
                    unwanted: Some(unwanted),
                    error: is_over.then(|| core.redis.too_few_replicas(key, confirmed)),
                    ..Refusal::of(Some(ticket))
                }
            }
            Err(error) => Refusal::of(Some(ticket)).failed(error, is_over),
        };
        Err(Box::new(refusal))
    }
}

impl Refusal {
    fn of(ticket: Option<Ticket>) -> Self {
        Self {
            missing: Missing::new(ticket),
            unwanted: None,
            error: None,
        }
    }

    /// Records an error. Without a reply, the lock is asked for again while there is time.
    fn failed(mut self, error: Error, is_over: bool) -> Self {
        if matches!(error, Error::Unavailable { .. }) && !is_over {
            self.missing.is_unanswered = true;
        } else {
            self.error = Some(error);
        }
        self
    }
}

/// What is to be given back.
#[derive(Default)]
struct Back {
    unwanted: Vec<Unwanted>,
    levels: Vec<Held>,
    /// Other threads of this process get them when all is given back.
    turns: Vec<Ticket>,
}

impl Back {
    fn add(&mut self, granted: Granted, terms: Terms) {
        match granted {
            Granted::Lock(ticket, hold) => {
                self.unwanted.push(Unwanted::new(&hold, terms));
                self.turns.push(ticket);
            }
            Granted::Level(held) => self.levels.push(held),
        }
    }

    /// Gives it back in the rest of the call, or in the background.
    fn undo(self, core: &Core, budget: &CallBudget) {
        let rest = budget.remaining(core.command_timeout);
        if !self.unwanted.is_empty() {
            give_back(core, self.unwanted, &rest);
        }
        if !self.levels.is_empty() {
            // A release without a reply goes on in the background.
            let _ = release_all(&self.levels, Needed::All, &rest);
        }
    }
}
