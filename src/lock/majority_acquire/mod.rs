//! Acquires a lock on a majority of several servers.
//!
//! Each round requests the lock from all servers at once. If a majority grants it, the lock is
//! acquired. Otherwise the round releases what was granted, and waits until other owners release
//! the lock.

mod round;

use std::collections::BTreeSet;
use std::time::Duration;

use super::majority::Majority;
use super::parts::HeldPart;
use super::ticket::{check_reply_deadline, wait_for_ticket};
use crate::base::backoff::{Backoff, jitter};
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::owner::ThreadId;
use crate::error::{Error, Result};
use crate::lease::Terms;
use crate::local::{QueueEntry, Ticket};
use crate::subscriber::Listener;

/// Pauses between rounds in which too few servers reply. There is none before the second round.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// Random pauses after a round in which several clients got some servers each, so that one of them
/// is first in the next round.
const FIRST_BACKOFF: Duration = Duration::from_millis(4);
const LONGEST_BACKOFF: Duration = Duration::from_millis(50);

/// For this many rounds in a row, another owner counts as a client that tries, too. After that it
/// counts as a holder.
const MAX_BACKOFFS: u32 = 4;

/// Pauses between rounds while no subscription can announce a release.
const POLL: Duration = Duration::from_millis(250);
const LONGEST_POLL: Duration = Duration::from_secs(2);

/// One call that acquires a lock on a majority of the servers.
pub(super) struct MajorityAcquire<'a> {
    lock: &'a Majority,
    terms: &'a [Terms],
    budget: &'a CallBudget,
    /// This thread's ticket for each server. Without it, the thread sends no request there.
    tickets: Vec<Option<Ticket>>,
    listeners: Vec<Option<Listener>>,
    /// The servers where other owners held the lock in the last round.
    held_at: Vec<usize>,
    /// The servers that granted the lock to this thread while another owner held a majority. This
    /// thread does not listen there: clients that wait would wake each other with their releases.
    minority_grants: BTreeSet<usize>,
}

/// The result of one round.
enum MajorityOutcome {
    Acquired(Vec<HeldPart>),
    /// No owner has a majority: several clients got some servers each.
    Split,
    /// Another thread of this process has the ticket for this server.
    Queued(usize),
    /// Other owners hold a majority, for at least the time `left`.
    HeldByOthers {
        left: Duration,
        /// Some servers granted the lock to this thread, in this round or before.
        split: bool,
    },
    /// Too few servers replied.
    Unanswered(Error),
}

impl<'a> MajorityAcquire<'a> {
    pub(super) fn new(lock: &'a Majority, terms: &'a [Terms], budget: &'a CallBudget) -> Self {
        Self {
            lock,
            terms,
            budget,
            tickets: lock.locks.iter().map(|_| None).collect(),
            listeners: lock.locks.iter().map(|_| None).collect(),
            held_at: Vec::new(),
            minority_grants: BTreeSet::new(),
        }
    }

    /// Acquires the lock; `None` if the budget ends first. If this returns without the lock, the
    /// tickets go to the next waiting threads of this process.
    pub(super) fn run(mut self) -> Result<Option<Vec<HeldPart>>> {
        let first = &self.lock.locks[0];
        let thread = ThreadId::current();
        self.tickets[0] = match first.core.queue.enter(first.key.key(), thread) {
            QueueEntry::Front(ticket) => Some(ticket),
            _ => wait_for_ticket(first, &self.lock.locks, self.budget, Moment::now())?,
        };
        if self.tickets[0].is_none() {
            return Ok(None);
        }
        self.acquire()
    }

    fn acquire(&mut self) -> Result<Option<Vec<HeldPart>>> {
        let budget = self.budget;
        let first = &self.lock.locks[0];
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE).with_immediate_retry();
        let mut polls = Backoff::new(POLL * 2, LONGEST_POLL);
        let mut backoffs = 0;
        // For all rounds in a row without enough replies.
        let mut reply_deadline = None;
        // While the servers are split, no client holds the lock. So also a call without a wait
        // tries until one client has it.
        let decided_by = budget.call_deadline();
        loop {
            let unanswered = self.tickets[0].as_ref().map(Ticket::begin_request);
            budget.set_unanswered_since(unanswered);
            check_reply_deadline(&first.core, &first.key, unanswered, budget)?;
            let end = *reply_deadline.get_or_insert_with(|| budget.reply_deadline());
            let asked = Moment::now();
            let outcome = self.request_majority()?;
            let took = Moment::now().since(asked);
            if !matches!(outcome, MajorityOutcome::Unanswered(_)) {
                self.tickets.iter().flatten().for_each(Ticket::replied);
                reply_deadline = None;
            }
            self.tickets[1..].fill_with(|| None);
            let is_undecided = match outcome {
                MajorityOutcome::Split => true,
                MajorityOutcome::HeldByOthers { split, .. } => split && backoffs < MAX_BACKOFFS,
                _ => false,
            };
            match outcome {
                MajorityOutcome::Acquired(held) => return Ok(Some(held)),
                MajorityOutcome::Unanswered(error) => {
                    // This round's own releases would wake the listeners, and end the pause.
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
                    self.back_off(backoff_time(backoffs, took), decided_by);
                    backoffs += 1;
                }
                // All threads wait in the order of the servers, so that no two wait for each other.
                MajorityOutcome::Queued(at) => {
                    let lock = &self.lock.locks[at];
                    let time = lock.core.command_timeout;
                    let briefly = budget.capped_at(Moment::now().after(POLL), time);
                    let ticket = wait_for_ticket(lock, &self.lock.locks, &briefly, Moment::ZERO);
                    self.tickets[at] = match ticket {
                        // If one server does not reply, the others may still be a majority.
                        Err(Error::Unavailable { .. }) => None,
                        ticket => ticket?,
                    };
                }
                MajorityOutcome::Split => {}
                MajorityOutcome::HeldByOthers { left, split } => {
                    let left = if split {
                        // The other owners may be clients that try, too.
                        left.min(jitter(polls.next()))
                    } else {
                        polls.reset();
                        backoffs = 0;
                        left
                    };
                    self.await_release(left);
                    if split {
                        // One release may have woken several clients.
                        self.back_off(backoff_time(0, Duration::ZERO), decided_by);
                    }
                }
            }
            budget.check_interrupt(self.lock.name())?;
        }
    }

    /// Sleeps until a message announces a release, at most for what is `left` of the lease.
    fn await_release(&mut self, left: Duration) {
        self.listen();
        let core = &self.lock.locks[0].core;
        let pause = if self.listens_to_majority() {
            left + core.wait_jitter()
        } else {
            left.min(POLL)
        };
        let counters = &core.observer.counters;
        if self.budget.wait(pause) {
            counters.wakeups_by_message.add(1);
        } else {
            counters.wakeups_by_timeout.add(1);
        }
    }

    /// Sleeps for `pause`. Messages do not end it: this thread's own releases sent some of them.
    fn back_off(&self, pause: Duration, decided_by: Moment) {
        let budget = self.budget;
        let left = if budget.is_wait_over() {
            decided_by.left()
        } else {
            budget.wait_left()
        };
        let end = Moment::now().after(pause.min(left));
        while !end.is_past() && !budget.is_interrupted() {
            budget.park(end.left());
        }
    }

    /// Listens at the servers where other owners hold the lock, and stops listening at the others.
    fn listen(&mut self) {
        for (at, lock) in self.lock.locks.iter().enumerate() {
            let (subscriber, listener) = (&lock.core.subscriber, &mut self.listeners[at]);
            let is_wanted =
                self.held_at.contains(&at) && !lock.core.redis.is_unresponsive(&lock.key);
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

    /// True if a release cannot be missed: the listened servers are a majority, and two majorities
    /// have a server in common.
    fn listens_to_majority(&self) -> bool {
        let live = self
            .listeners
            .iter()
            .flatten()
            .filter(|listener| listener.is_live());
        live.count() >= self.lock.needed()
    }
}

/// The pause after `before` earlier pauses in a row, when the last round took `took`. A pause
/// shorter than a round would lead to the same collision again.
fn backoff_time(before: u32, took: Duration) -> Duration {
    let longest = LONGEST_BACKOFF.max(took * 8);
    let doubled = FIRST_BACKOFF.max(took) * (1 << before.min(MAX_BACKOFFS));
    jitter(doubled.min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_the_rounds_and_with_their_length() {
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
            let pause = backoff_time(before, took);
            assert!(
                pause >= about / 2 && pause <= about * 3 / 2,
                "{pause:?} for {about:?}"
            );
        }
    }
}
