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
use super::round::HeldByOther;
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

/// What the rounds of one acquisition know of the earlier ones.
struct Rounds {
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

impl<'a> Acquisition<'a> {
    /// Requests the lock until a majority grants it, or the budget ends: then false.
    pub(super) fn acquire_majority(&mut self) -> Result<bool> {
        let budget = self.call.budget;
        self.wait = Wait::new(budget, Backoff::new(POLL, POLL));
        self.leave_to_others();
        let mut rounds = Rounds {
            pauses: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE).with_immediate_retry(),
            retries: Backoff::new(FIRST_RETRY, LONGEST_RETRY),
            backoffs: 0,
            reply_deadline: None,
            decided_by: budget.call_deadline(),
            minority_grants: BTreeSet::new(),
        };
        wait_until(budget, self.call.parts.name(), || {
            self.request_majority(&mut rounds)
        })
    }

    /// Requests the lock once. Waits for the next round if there is no decision: then `None`.
    fn request_majority(&mut self, rounds: &mut Rounds) -> Result<Option<bool>> {
        let budget = self.call.budget;
        let deadline = self.begin_round()?;
        let reply_deadline = *rounds.reply_deadline.get_or_insert(deadline);
        let asked = Moment::now();
        let replies = self.request();
        let (needed, servers) = (self.needed(), self.units.len());
        let is_refusal = |error: &&Error| !matches!(error, Error::Unavailable { .. });
        if replies.failures.iter().filter(is_refusal).count() + needed > servers {
            return Err(self.call.parts.joined(replies.failures, budget));
        }
        let granted: Vec<usize> = self.granted().collect();
        if granted.len() < needed {
            self.undo();
        }
        if granted.len() + replies.held.len() < needed {
            // This round's own releases would wake the listeners, and end the pause.
            self.wait.stop_listening();
            budget.park(rounds.pauses.next().min(reply_deadline.left()));
            if !reply_deadline.is_past() || budget.is_interrupted() {
                return Ok(None);
            }
            return Err(match replies.is_too_late {
                true => self.too_late_error(),
                false => self.call.parts.joined(replies.failures, budget),
            });
        }
        self.replied();
        rounds.reply_deadline = None;
        if granted.len() >= needed {
            return Ok(Some(true));
        }
        let took = Moment::now().since(asked);
        Ok(self.after_refusal_by_majority(rounds, granted, replies.held, took))
    }

    /// Waits after a round in which other owners have too many of the servers: `held`. False if the
    /// wait is over.
    fn after_refusal_by_majority(
        &mut self,
        rounds: &mut Rounds,
        granted: Vec<usize>,
        mut held: Vec<HeldByOther<'a>>,
        took: Duration,
    ) -> Option<bool> {
        // No owner has a majority: several clients got some servers each.
        let is_split = !granted.is_empty() && held.len() < self.needed();
        if !is_split {
            held = rounds.holders(self.needed(), granted, held);
        }
        let has_minority = !rounds.minority_grants.is_empty();
        let is_over = self.call.budget.is_wait_over();
        let is_undecided = is_split
            || has_minority && rounds.backoffs < MAX_BACKOFFS
            || is_over && held.iter().any(|held| self.awaits_own_release(held));
        if is_over && (!is_undecided || rounds.decided_by.is_past()) {
            return Some(false);
        }
        if is_undecided {
            self.back_off(rounds, backoff_time(rounds.backoffs, took));
            rounds.backoffs += 1;
        } else {
            self.await_releases(rounds, &held);
        }
        None
    }

    /// Sleeps until a message announces a release, or until this thread may get a majority because
    /// leases end. Listens where other owners hold the lock. If these servers are a majority, no
    /// release is missed, because two majorities have a server in common.
    fn await_releases(&mut self, rounds: &mut Rounds, held: &[HeldByOther<'a>]) {
        let needed = self.needed();
        let core = &self.units[0].parts[0].core;
        let last = (needed - 1).checked_sub(rounds.minority_grants.len());
        let last = last.and_then(|at| held.get(at));
        let mut left = last.map_or(POLL, |held| held.left);
        let has_minority = !rounds.minority_grants.is_empty();
        if has_minority {
            // The other owners may be clients that try, too.
            left = left.min(jitter(rounds.retries.next()));
        } else {
            rounds.retries.reset();
            rounds.backoffs = 0;
        }
        let parts = held.iter().map(|held| held.part);
        let channels: Vec<Channel<'a>> = parts
            .filter(|part| !part.core.redis.is_unresponsive(&part.key))
            .map(Part::channel)
            .collect();
        let is_live = self.wait.listen(&channels) >= needed;
        let left = left + core.wait_jitter();
        self.wait.sleep_counted(core, is_live, left);
        if has_minority {
            // One release may have woken several clients.
            self.back_off(rounds, backoff_time(0, Duration::ZERO));
        }
    }

    /// Sleeps for `pause`. Messages do not end it: this thread's own releases sent some of them.
    fn back_off(&self, rounds: &Rounds, pause: Duration) {
        let left = match self.call.budget.is_wait_over() {
            true => rounds.decided_by.left(),
            false => self.call.budget.wait_left(),
        };
        self.wait.sleep_deaf(Moment::now().after(pause.min(left)));
    }
}

impl Rounds {
    /// The holders of a majority, by what is left of their leases, after a round that granted a
    /// minority or nothing to this thread.
    fn holders<'a>(
        &mut self,
        needed: usize,
        granted: Vec<usize>,
        held: Vec<HeldByOther<'a>>,
    ) -> Vec<HeldByOther<'a>> {
        let is_competitor = |held: &HeldByOther<'_>| self.minority_grants.contains(&held.unit);
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
