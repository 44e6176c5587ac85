//! Acquires a lock on a majority of several servers.
//!
//! Each round requests the lock from all servers at once. If a majority grants it, the lock is
//! acquired. Otherwise the round releases what was granted, and waits until other owners release
//! the lock.
//!
//! The thread does not wait for late servers when the outcome is certain, and undoes the requests
//! to them. Two majorities share a server, so at least one server delivers the message of a
//! release.

use std::collections::BTreeSet;
use std::time::Duration;

use super::acquisition::Acquisition;
use super::round::{HeldByOther, Replies};
use crate::base::backoff::{Backoff, jitter};
use crate::base::clock::Moment;
use crate::engine::parts::Part;
use crate::engine::wait::{Channel, Wait, wait_until};
use crate::error::{Error, Result};

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

/// The pause between rounds while no subscription can announce a release.
const POLL: Duration = Duration::from_millis(250);

/// Pauses between rounds while another owner that has no majority may be a client that tries, too.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// The rounds of one acquisition.
struct Rounds<'r, 'a> {
    acquisition: &'r mut Acquisition<'a>,
    pauses: Backoff,
    retries: Backoff,
    /// The number of pauses after rounds without a decision.
    backoffs: u32,
    /// For all rounds in a row without enough replies.
    reply_deadline: Option<Moment>,
    /// While the servers are split, no client holds the lock. So also a call without a wait tries
    /// until one client has it, or until this moment.
    decided_by: Moment,
    /// The units that were granted to this thread while another owner held a majority. This thread
    /// does not listen there: clients that wait would wake each other with their releases.
    minority_grants: BTreeSet<usize>,
}

impl Acquisition<'_> {
    /// Requests the lock until a majority grants it, or the budget ends: then false.
    pub(super) fn acquire_majority(&mut self) -> Result<bool> {
        let (budget, name) = (self.call.budget, self.call.parts.name());
        self.wait = Wait::new(budget, Backoff::new(POLL, POLL));
        self.leave_to_others();
        let mut rounds = Rounds {
            pauses: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE).with_immediate_retry(),
            retries: Backoff::new(FIRST_RETRY, LONGEST_RETRY),
            backoffs: 0,
            reply_deadline: None,
            decided_by: budget.call_deadline(),
            minority_grants: BTreeSet::new(),
            acquisition: self,
        };
        wait_until(budget, name, || rounds.round())
    }
}

impl<'a> Rounds<'_, 'a> {
    /// Requests the lock once. Waits for the next round if there is no decision: then `None`.
    fn round(&mut self) -> Result<Option<bool>> {
        let acquisition = &mut *self.acquisition;
        let budget = acquisition.call.budget;
        let deadline = acquisition.begin_round()?;
        let reply_deadline = *self.reply_deadline.get_or_insert(deadline);
        let asked = Moment::now();
        let replies = acquisition.request();
        let (needed, servers) = (acquisition.needed(), acquisition.units.len());
        let is_refusal = |error: &&Error| !matches!(error, Error::Unavailable { .. });
        if replies.failures.iter().filter(is_refusal).count() + needed > servers {
            return Err(acquisition.call.parts.joined(replies.failures, budget));
        }
        let granted: Vec<usize> = acquisition.granted().collect();
        if granted.len() < needed {
            acquisition.undo();
        }
        if granted.len() + replies.held.len() < needed {
            return self.after_no_majority_replied(replies, reply_deadline);
        }
        acquisition.claim.replied();
        self.reply_deadline = None;
        if granted.len() >= needed {
            return Ok(Some(true));
        }
        let took = Moment::now().since(asked);
        self.after_refusal(granted, replies.held, took)
    }

    /// Pauses after a round in which too few servers replied.
    fn after_no_majority_replied(
        &mut self,
        replies: Replies<'a>,
        reply_deadline: Moment,
    ) -> Result<Option<bool>> {
        let acquisition = &mut *self.acquisition;
        let budget = acquisition.call.budget;
        // This round's own releases would wake the listeners, and end the pause.
        acquisition.wait.stop_listening();
        budget.park(self.pauses.next().min(reply_deadline.left()));
        if !reply_deadline.is_past() || budget.is_interrupted() {
            return Ok(None);
        }
        Err(if replies.is_too_late {
            acquisition.too_late_error()
        } else {
            acquisition.call.parts.joined(replies.failures, budget)
        })
    }

    /// Waits after a round in which other owners have too many of the servers: `held`.
    fn after_refusal(
        &mut self,
        granted: Vec<usize>,
        held: Vec<HeldByOther<'a>>,
        took: Duration,
    ) -> Result<Option<bool>> {
        // No owner has a majority: several clients got some servers each.
        let is_split = !granted.is_empty() && held.len() < self.acquisition.needed();
        let held = if is_split {
            held
        } else {
            self.holders(granted, held)
        };
        let has_minority = !self.minority_grants.is_empty();
        let is_undecided = is_split || has_minority && self.backoffs < MAX_BACKOFFS;
        let is_over = self.acquisition.call.budget.is_wait_over();
        if is_over && (!is_undecided || self.decided_by.is_past()) {
            return Ok(Some(false));
        }
        if is_undecided {
            self.back_off(backoff_time(self.backoffs, took));
            self.backoffs += 1;
        } else {
            self.await_release(&held);
        }
        Ok(None)
    }

    /// The holders of a majority, by what is left of their leases, after a round that granted a
    /// minority or nothing to this thread.
    fn holders(&mut self, granted: Vec<usize>, held: Vec<HeldByOther<'a>>) -> Vec<HeldByOther<'a>> {
        let is_competitor = |held: &HeldByOther<'_>| self.minority_grants.contains(&held.unit);
        let (by_competitors, mut held): (Vec<_>, Vec<_>) =
            held.into_iter().partition(is_competitor);
        if held.len() < self.acquisition.needed() {
            // Another owner has acquired a majority since.
            held.extend(by_competitors);
            self.minority_grants.clear();
        }
        self.minority_grants.extend(granted);
        held.sort_unstable_by_key(|held| held.left);
        held
    }

    /// Sleeps until a message announces a release, or until this thread may get a majority because
    /// leases end. Listens where other owners hold the lock. If these servers are a majority, no
    /// release is missed, because two majorities have a server in common.
    fn await_release(&mut self, held: &[HeldByOther<'a>]) {
        let needed = self.acquisition.needed();
        let Acquisition { units, wait, .. } = &mut *self.acquisition;
        let core = &units[0].parts[0].core;
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
        let parts = held.iter().map(|held| held.part);
        let channels: Vec<Channel<'a>> = parts
            .filter(|part| !part.core.redis.is_unresponsive(&part.key))
            .map(Part::channel)
            .collect();
        let is_live = wait.listen(&channels) >= needed;
        wait.sleep_counted(core, is_live, left + core.wait_jitter());
        if has_minority {
            // One release may have woken several clients.
            self.back_off(backoff_time(0, Duration::ZERO));
        }
    }

    /// Sleeps for `pause`. Messages do not end it: this thread's own releases sent some of them.
    fn back_off(&self, pause: Duration) {
        let Acquisition { call, wait, .. } = &*self.acquisition;
        let budget = call.budget;
        let left = if budget.is_wait_over() {
            self.decided_by.left()
        } else {
            budget.wait_left()
        };
        wait.sleep_deaf(Moment::now().after(pause.min(left)));
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
