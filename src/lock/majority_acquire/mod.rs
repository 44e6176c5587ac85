//! The way to a majority: ask all servers at once, keep what a majority grants, else give all of it back, and
//! wait for whoever has it.

mod round;

use std::collections::BTreeSet;
use std::time::Duration;

use super::held::Held;
use super::majority::Majority;
use super::ticket::{check_reply_deadline, wait_for_ticket};
use crate::base::backoff::{Backoff, jitter};
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::owner::ThreadId;
use crate::error::{Error, Result};
use crate::lease::Terms;
use crate::local::{QueueEntry, Ticket};
use crate::subscriber::Listener;

/// Between attempts while Redis does not answer; none before the second.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// Between attempts of which each got a part of the servers: short, and by chance, so that one of those who
/// share them comes before the others.
const FIRST_STEP_BACK: Duration = Duration::from_millis(4);
const LONGEST_STEP_BACK: Duration = Duration::from_millis(50);

/// So many attempts in a row take whoever is found for one who tries as well; the next one for a holder.
const STEPS_BACK: u32 = 4;

/// Between tries where no message can tell of a release.
const POLL: Duration = Duration::from_millis(250);
const LONGEST_POLL: Duration = Duration::from_secs(2);

/// One thread's way to one lock.
pub(super) struct MajorityAcquire<'a> {
    lock: &'a Majority,
    terms: &'a [Terms],
    budget: &'a CallBudget,
    /// At each server, whether this thread speaks for its process there.
    turns: Vec<Option<Ticket>>,
    listeners: Vec<Option<Listener>>,
    /// Where others held it at the last attempt.
    elsewhere: Vec<usize>,
    /// What was had although others hold a majority. Whoever is found there passes by, as this thread did,
    /// and all who wait would wake one another if they listened there.
    spare: BTreeSet<usize>,
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
        /// Some servers were had all the same, now or before.
        shared: bool,
    },
    /// Too few answered.
    Silence(Error),
}

impl<'a> MajorityAcquire<'a> {
    pub(super) fn new(lock: &'a Majority, terms: &'a [Terms], budget: &'a CallBudget) -> Self {
        Self {
            lock,
            terms,
            budget,
            turns: lock.locks.iter().map(|_| None).collect(),
            listeners: lock.locks.iter().map(|_| None).collect(),
            elsewhere: Vec::new(),
            spare: BTreeSet::new(),
        }
    }

    /// Takes the lock; `None` if the budget ends before. Whatever way this ends without the lock, the
    /// turns go to those who wait for them.
    pub(super) fn enter(mut self) -> Result<Option<Vec<Held>>> {
        let first = &self.lock.locks[0];
        let thread = ThreadId::current();
        self.turns[0] = match first.core.queue.enter(first.key.key(), thread) {
            QueueEntry::Front(ticket) => Some(ticket),
            _ => wait_for_ticket(first, &self.lock.locks, self.budget, Moment::now())?,
        };
        if self.turns[0].is_none() {
            return Ok(None);
        }
        self.compete()
    }

    fn compete(&mut self) -> Result<Option<Vec<Held>>> {
        let budget = self.budget;
        let first = &self.lock.locks[0];
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE).with_immediate_retry();
        let mut polls = Backoff::new(POLL * 2, LONGEST_POLL);
        let mut steps_back = 0;
        // Of all attempts that nobody answers together.
        let mut reply_deadline = None;
        // While several have a part each, nobody holds it: also who waits for nobody is to learn who does.
        let decided_by = budget.call_deadline();
        loop {
            let unanswered = self.turns[0].as_ref().map(Ticket::begin_request);
            budget.set_unanswered_since(unanswered);
            check_reply_deadline(&first.core, &first.key, unanswered, budget)?;
            let end = *reply_deadline.get_or_insert_with(|| budget.reply_deadline());
            let asked = Moment::now();
            let found = self.attempt()?;
            let took = Moment::now().since(asked);
            if !matches!(found, Found::Silence(_)) {
                self.turns.iter().flatten().for_each(Ticket::replied);
                reply_deadline = None;
            }
            self.turns[1..].fill_with(|| None);
            let is_undecided = match found {
                Found::Shared => true,
                Found::Held { shared, .. } => shared && steps_back < STEPS_BACK,
                _ => false,
            };
            match found {
                Found::Taken(held) => return Ok(Some(held)),
                Found::Silence(error) => {
                    // What a minority granted was given back, which would end the pause where that is heard.
                    self.listeners.fill_with(|| None);
                    budget.park(pauses.next().min(end.left()));
                    if end.is_past() && !budget.is_interrupted() {
                        return Err(error);
                    }
                }
                _ if budget.is_wait_over() && (!is_undecided || decided_by.is_past()) => {
                    return Ok(None);
                }
                _ if is_undecided => {
                    self.step_back(step_back(steps_back, took), decided_by);
                    steps_back += 1;
                }
                // In the order of the servers, as all threads do, so that no two wait for each other.
                Found::Behind(at) => {
                    let lock = &self.lock.locks[at];
                    let time = lock.core.command_timeout;
                    let briefly = budget.capped_at(Moment::now().after(POLL), time);
                    let ticket = wait_for_ticket(lock, &self.lock.locks, &briefly, Moment::ZERO);
                    self.turns[at] = match ticket {
                        // Silence at one server is for the others to make up for.
                        Err(Error::Unavailable { .. }) => None,
                        ticket => ticket?,
                    };
                }
                Found::Shared => {}
                Found::Held { left, shared } => {
                    let left = if shared {
                        // Perhaps they do.
                        left.min(jitter(polls.next()))
                    } else {
                        polls.reset();
                        steps_back = 0;
                        left
                    };
                    self.await_release(left);
                    if shared {
                        // Those who share it are woken by one another.
                        self.step_back(step_back(0, Duration::ZERO), decided_by);
                    }
                }
            }
            budget.check_interrupt(self.lock.name())?;
        }
    }

    /// Sleeps until whoever holds it gives it back, for what is left of the lease at most.
    fn await_release(&mut self, left: Duration) {
        self.listen();
        let core = &self.lock.locks[0].core;
        let nap = if self.hears_a_majority() {
            left + core.wait_jitter()
        } else {
            left.min(POLL)
        };
        let counters = &core.observer.counters;
        if self.budget.wait(nap) {
            counters.wakeups_by_message.add(1);
        } else {
            counters.wakeups_by_timeout.add(1);
        }
    }

    /// Sleeps so long whatever messages come: those of what was just given back are among them.
    fn step_back(&self, nap: Duration, decided_by: Moment) {
        let budget = self.budget;
        let left = if budget.is_wait_over() {
            decided_by.left()
        } else {
            budget.wait_left()
        };
        let end = Moment::now().after(nap.min(left));
        while !end.is_past() && !budget.is_interrupted() {
            budget.park(end.left());
        }
    }

    /// Listens wherever others hold it. Where it was had, nobody but those who try is to be heard.
    fn listen(&mut self) {
        for (at, lock) in self.lock.locks.iter().enumerate() {
            let (subscriber, listener) = (&lock.core.subscriber, &mut self.listeners[at]);
            let is_wanted = self.elsewhere.contains(&at) && !lock.core.redis.is_suspect();
            let is_of_use = |l: &Listener| is_wanted && subscriber.is_in_place(l, &lock.key);
            if !listener.as_ref().is_some_and(is_of_use) {
                *listener = None;
            }
            if listener.is_none() && is_wanted {
                let (unparker, left) = (self.budget.unparker(), self.budget.wait_left());
                *listener = Some(subscriber.listen(&lock.key, unparker, left));
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
}

/// How long to step back after so many attempts in a row that got a part. Who does so for less than an attempt
/// takes meets the others again.
fn step_back(before: u32, took: Duration) -> Duration {
    let longest = LONGEST_STEP_BACK.max(took * 8);
    let doubled = FIRST_STEP_BACK.max(took) * (1 << before.min(STEPS_BACK));
    jitter(doubled.min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_back_grow_with_each_attempt_and_with_its_length_alone() {
        let ms = Duration::from_millis;
        for (before, took, about) in [
            (0, ms(0), ms(4)),
            (2, ms(1), ms(16)),
            (9, ms(1), ms(50)),
            (u32::MAX, ms(1), ms(50)),
            (0, ms(300), ms(300)),
            (3, ms(300), ms(2400)),
            (9, ms(300), ms(2400)),
        ] {
            let found = step_back(before, took);
            assert!(
                found >= about / 2 && found <= about * 3 / 2,
                "{found:?} for {about:?}"
            );
        }
    }
}
