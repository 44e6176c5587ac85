//! Acquires a lock on a majority of several servers.
//!
//! Each round requests the lock from all servers at once. If a majority grants it, the lock is
//! acquired. Otherwise the round releases what was granted, and waits until other owners release
//! the lock.
//!
//! The thread does not wait for late servers when the outcome is certain, and undoes the requests
//! to them. Two majorities share a server, so at least one server delivers the message of a
//! release.
//!
//! The threads of these clients wait for each other in the local queue. A thread takes the tickets
//! of the servers in one order. If another thread has one of them, it waits for that one, and has
//! no other ticket meanwhile. So threads do not wait for each other in a circle, and those that
//! want a lock which a thread holds wait in one queue. A thread that has a majority gives the other
//! tickets back.

use std::collections::BTreeSet;
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use super::seats::{HeldAt, Seats};
use super::{CompositeCall, Missing, Quorum};
use crate::base::{Backoff, Moment, jitter};
use crate::engine::{Channel, HeldLock, SingleLock, Wait, repeat_until_done};
use crate::error::{Error, Result};
use crate::request::RETRIES;

/// Random pauses after a round in which several clients got some servers each, so that one of them
/// is first in the next round.
const FIRST_BACKOFF: Duration = Duration::from_millis(4);
const LONGEST_BACKOFF: Duration = Duration::from_millis(50);

/// For this many rounds in a row, another owner counts as a client that tries, too. After that it
/// counts as a holder.
const MAX_BACKOFFS: u32 = 4;

/// The pause between rounds while no subscription can announce a release.
const POLL: Duration = Duration::from_millis(250);

/// Pauses between rounds while another owner that has no majority may be a client that tries, too.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// What the rounds of one acquisition know of the earlier ones.
struct Rounds<'a> {
    call: CompositeCall<'a>,
    wait: Wait<'a>,
    /// After rounds in which too few servers replied.
    pauses: Backoff,
    retries: Backoff,
    /// The number of pauses after rounds without a decision.
    backoffs: u32,
    /// For all rounds in a row without enough replies.
    reply_deadline: Option<Moment>,
    /// While the servers are split, no client holds the lock. So also a call without a wait tries
    /// until one client has it, or until this moment.
    decided_by: Moment,
    /// The servers that granted the lock to this thread while another owner held a majority. This
    /// thread does not listen there: clients that wait would wake each other with their releases.
    minority_grants: BTreeSet<usize>,
    /// A refusal named this client as the owner, no release was known, and the thread asked again.
    has_asked_again: bool,
}

/// Acquires a majority of these servers, at which the thread does not hold the lock; `None` if the
/// budget ends first.
pub(super) fn acquire(
    call: CompositeCall<'_>,
    missing: &[Missing<'_>],
) -> Result<Option<Vec<HeldLock>>> {
    let mut seats = Seats::new(call, missing, 0..missing.len());
    let has_tickets = seats.take_tickets();
    if !matches!(has_tickets, Ok(true)) {
        seats.undo();
        return has_tickets.map(|_| None);
    }
    let needed = seats.needed();
    let _calls = call.begin();
    let is_acquired = match seats.held().len() < needed {
        true => Rounds::new(call).run(&mut seats),
        false => Ok(true),
    };
    if let Ok(true) = is_acquired {
        let levels = seats.keep().into_iter().map(|(_, level)| level);
        let held: Vec<HeldLock> = levels.collect();
        // The holds of a majority end together.
        let holds: Vec<_> = held.iter().map(|level| &level.hold).collect();
        Quorum::join(&holds, needed);
        return Ok(Some(held));
    }
    seats.undo();
    is_acquired.map(|_| None)
}

impl<'a> Rounds<'a> {
    fn new(call: CompositeCall<'a>) -> Self {
        let budget = call.budget;
        Self {
            wait: Wait::new(budget, Backoff::new(POLL, POLL)),
            pauses: RETRIES,
            retries: Backoff::new(FIRST_RETRY, LONGEST_RETRY),
            backoffs: 0,
            reply_deadline: None,
            decided_by: budget.call_deadline(),
            minority_grants: BTreeSet::new(),
            has_asked_again: false,
            call,
        }
    }

    /// Requests the lock until a majority grants it, or the budget ends: then false.
    fn run(&mut self, seats: &mut Seats<'a>) -> Result<bool> {
        let (composite, budget) = (self.call.composite, self.call.budget);
        budget.check_interrupt(composite.name())?;
        seats.pause(&self.wait);
        repeat_until_done(budget, composite.name(), || self.round(seats))
    }

    /// Requests the lock once. Breaks with the decision. Waits for the next round if there is none.
    fn round(&mut self, seats: &mut Seats<'a>) -> Result<ControlFlow<bool>> {
        let (composite, budget) = (self.call.composite, self.call.budget);
        if !seats.take_tickets()? {
            return Ok(Break(false));
        }
        let deadline = seats.begin_round()?;
        let reply_deadline = *self.reply_deadline.get_or_insert(deadline);
        let asked = Moment::now();
        let replies = seats.request();
        // Now, because the releases below may wait for a server that stands still.
        let took = Moment::now().since(asked);
        let (needed, servers) = (seats.needed(), seats.seats.len());
        let is_refusal = |error: &&Error| !matches!(error, Error::Unavailable { .. });
        if replies.failures.iter().filter(is_refusal).count() + needed > servers {
            return Err(composite.joined(replies.failures, budget));
        }
        let granted = seats.held();
        if granted.len() < needed {
            seats.undo();
        }
        if granted.len() + replies.refused.len() < needed {
            // This round's own releases would wake the listeners, and end the pause.
            self.wait.stop_listening();
            budget.park(self.pauses.next().min(reply_deadline.left()));
            if !reply_deadline.is_past() || budget.is_interrupted() {
                return Ok(Continue(()));
            }
            return Err(match replies.is_too_late {
                true => seats.seats[0].part.too_late_error(),
                false => composite.joined(replies.failures, budget),
            });
        }
        seats.replied();
        self.reply_deadline = None;
        if granted.len() >= needed {
            return Ok(Break(true));
        }
        let has_all_replies = replies.failures.is_empty() && !replies.is_too_late;
        let took = length_of_round(took, has_all_replies);
        Ok(self.after_refusal(seats, granted, replies.refused, took))
    }

    /// Waits after a round in which other owners have too many of the servers: `held`. Breaks with
    /// false if the wait is over.
    fn after_refusal(
        &mut self,
        seats: &Seats<'a>,
        granted: Vec<usize>,
        mut held: Vec<HeldAt>,
        took: Duration,
    ) -> ControlFlow<bool> {
        // No owner has a majority: several clients got some servers each.
        let is_split = !granted.is_empty() && held.len() < seats.needed();
        if !is_split {
            held = self.holders(seats.needed(), granted, held);
        }
        let has_minority = !self.minority_grants.is_empty();
        let is_over = self.call.budget.is_wait_over();
        let has_asked_again = &mut self.has_asked_again;
        let awaits_own_release = |held: &HeldAt| {
            let part = seats.seats[held.seat].part;
            held.is_of_client && part.awaits_own_release(has_asked_again)
        };
        let is_undecided = is_split
            || has_minority && self.backoffs < MAX_BACKOFFS
            || is_over && held.iter().any(awaits_own_release);
        if is_over && (!is_undecided || self.decided_by.is_past()) {
            return Break(false);
        }
        if is_undecided {
            self.back_off(backoff_time(self.backoffs, took));
            self.backoffs += 1;
        } else {
            self.await_releases(seats, &held);
        }
        Continue(())
    }

    /// Sleeps until a message announces a release, or until this thread may get a majority because
    /// leases end. Listens where other owners hold the lock. If these servers are a majority, no
    /// release is missed, because two majorities have a server in common.
    fn await_releases(&mut self, seats: &Seats<'a>, held: &[HeldAt]) {
        let needed = seats.needed();
        let last = (needed - 1).checked_sub(self.minority_grants.len());
        let last = last.and_then(|at| held.get(at));
        let mut left = last.map_or(POLL, |held| held.left);
        let has_minority = !self.minority_grants.is_empty();
        if has_minority {
            // The other owners may be clients that try, too.
            left = left.min(jitter(self.retries.next()));
        } else {
            self.retries.reset();
            self.backoffs = 0;
        }
        let locks = held.iter().map(|held| seats.seats[held.seat].part.lock);
        let channels: Vec<Channel<'a>> = locks
            .filter(|lock| !lock.core.redis.is_unresponsive(&lock.key))
            .map(SingleLock::channel)
            .collect();
        let is_live = self.wait.listen(&channels) >= needed;
        let core = self.call.core;
        self.wait
            .sleep_counted(core, is_live, left + core.wait_jitter());
        if has_minority {
            // One release may have woken several clients.
            self.back_off(backoff_time(0, Duration::ZERO));
        }
    }

    /// Sleeps for `pause`. Messages do not end it: this thread's own releases sent some of them.
    fn back_off(&self, pause: Duration) {
        let left = match self.call.budget.is_wait_over() {
            true => self.decided_by.left(),
            false => self.call.budget.wait_left(),
        };
        self.wait.sleep_deaf(Moment::now().after(pause.min(left)));
    }

    /// The holders of a majority, by what is left of their leases, after a round that granted a
    /// minority or nothing to this thread.
    fn holders(&mut self, needed: usize, granted: Vec<usize>, held: Vec<HeldAt>) -> Vec<HeldAt> {
        let is_competitor = |held: &HeldAt| self.minority_grants.contains(&held.seat);
        let (by_competitors, mut held): (Vec<_>, Vec<_>) =
            held.into_iter().partition(is_competitor);
        if held.len() < needed {
            // Another owner has acquired a majority since.
            held.extend(by_competitors);
            self.minority_grants.clear();
        }
        self.minority_grants.extend(granted);
        held.sort_unstable_by_key(|held| held.left);
        held
    }
}

/// How long a round took, for the length of the next pause. A round without all replies has waited
/// for one that does not come, and counts as a short one. Otherwise the thread would pause for many
/// seconds after a server stood still, and no message wakes it then.
fn length_of_round(took: Duration, has_all_replies: bool) -> Duration {
    match has_all_replies {
        true => took,
        false => took.min(LONGEST_BACKOFF),
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
    fn a_silent_server_does_not_prolong_the_pauses() {
        let second = Duration::from_secs(1);
        for before in [0, 3, u32::MAX] {
            let pause = backoff_time(before, length_of_round(second, false));
            assert!(pause < second, "{pause:?} after {before}");
        }
        assert_eq!(length_of_round(second, true), second);
    }

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
