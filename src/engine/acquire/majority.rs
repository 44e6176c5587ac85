//! Acquires a lock on a majority of several servers.
//!
//! Each round requests the lock from all servers at once. If a majority grants it, the lock is
//! acquired. Otherwise the round releases what was granted, and waits until other owners release
//! the lock.

use std::collections::BTreeSet;
use std::time::Duration;

use super::request::{Acquisition, HeldByOther, Replies};
use crate::base::backoff::{Backoff, jitter};
use crate::base::clock::Moment;
use crate::engine::held::joined;
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

/// The result of one round.
enum MajorityOutcome {
    Acquired,
    /// No owner has a majority: several clients got some servers each.
    Split,
    /// Other owners hold a majority, for at least the time `left`.
    HeldByOthers {
        held: Vec<HeldByOther>,
        left: Duration,
        /// Some servers granted the lock to this thread, in this round or before.
        split: bool,
    },
    /// Too few servers replied.
    Unanswered(Error),
}

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
        let (budget, name) = (self.budget, self.parts.name());
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
        let budget = self.acquisition.budget;
        self.acquisition.begin_round()?;
        let end = *self
            .reply_deadline
            .get_or_insert_with(|| budget.reply_deadline());
        let asked = Moment::now();
        let replies = self.acquisition.request();
        let outcome = self.decide(replies)?;
        let took = Moment::now().since(asked);
        if let MajorityOutcome::Unanswered(error) = outcome {
            return self.after_silence(error, end);
        }
        self.acquisition.claim.replied();
        self.reply_deadline = None;
        let is_undecided = match outcome {
            MajorityOutcome::Split => true,
            MajorityOutcome::HeldByOthers { split, .. } => split && self.backoffs < MAX_BACKOFFS,
            _ => return Ok(Some(true)),
        };
        if budget.is_wait_over() && (!is_undecided || self.decided_by.is_past()) {
            return Ok(Some(false));
        }
        if is_undecided {
            self.back_off(backoff_time(self.backoffs, took));
            self.backoffs += 1;
        } else if let MajorityOutcome::HeldByOthers { held, left, split } = outcome {
            self.await_release(&held, left, split);
        }
        Ok(None)
    }

    /// Pauses after a round in which too few servers replied.
    fn after_silence(&mut self, error: Error, end: Moment) -> Result<Option<bool>> {
        let budget = self.acquisition.budget;
        // This round's own releases would wake the listeners, and end the pause.
        self.acquisition.wait.stop_listening();
        budget.park(self.pauses.next().min(end.left()));
        if end.is_past() && !budget.is_interrupted() {
            return Err(error);
        }
        Ok(None)
    }

    /// Decides what follows a round. Releases what a minority granted.
    fn decide(&mut self, replies: Replies<'a>) -> Result<MajorityOutcome> {
        let request = &mut *self.acquisition;
        let (needed, servers) = (request.needed(), request.units.len());
        let granted: Vec<usize> = request.granted().collect();
        let refusals = |error: &&Error| !matches!(error, Error::Unavailable { .. });
        if replies.failures.iter().filter(refusals).count() + needed > servers {
            let label = request.parts.label();
            return Err(joined(label, replies.failures, request.budget));
        }
        if granted.len() >= needed {
            return Ok(MajorityOutcome::Acquired);
        }
        request.undo();
        if granted.len() + replies.held.len() < needed {
            let error = if replies.is_too_late {
                request.too_late_error()
            } else {
                joined(request.parts.label(), replies.failures, request.budget)
            };
            return Ok(MajorityOutcome::Unanswered(error));
        }
        if !granted.is_empty() && replies.held.len() < needed {
            return Ok(MajorityOutcome::Split);
        }
        Ok(self.held_by_others(granted, replies.held))
    }

    /// The outcome of a round in which other owners held a majority.
    fn held_by_others(&mut self, granted: Vec<usize>, held: Vec<HeldByOther>) -> MajorityOutcome {
        let needed = self.acquisition.needed();
        let is_competitor = |held: &HeldByOther| self.minority_grants.contains(&held.unit);
        let (by_competitors, mut held): (Vec<_>, Vec<_>) =
            held.into_iter().partition(is_competitor);
        if held.len() < needed {
            // Another owner has acquired a majority since.
            held.extend(by_competitors);
            self.minority_grants.clear();
        }
        self.minority_grants.extend(granted);
        held.sort_unstable_by_key(|held| held.left);
        let missing = needed - self.minority_grants.len();
        MajorityOutcome::HeldByOthers {
            left: held.get(missing - 1).map_or(POLL, |held| held.left),
            split: !self.minority_grants.is_empty(),
            held,
        }
    }

    /// Sleeps until a message announces a release, at most for what is `left` of the lease. Listens
    /// where other owners hold the lock. If these servers are a majority, no release is missed,
    /// because two majorities have a server in common.
    fn await_release(&mut self, held: &[HeldByOther], left: Duration, split: bool) {
        let left = if split {
            // The other owners may be clients that try, too.
            left.min(jitter(self.retries.next()))
        } else {
            self.retries.reset();
            self.backoffs = 0;
            left
        };
        let request = &mut *self.acquisition;
        let channels: Vec<Channel<'a>> = held
            .iter()
            .map(|&held| request.part(held))
            .filter(|part| !part.core.redis.is_unresponsive(&part.key))
            .map(|part| part.channel())
            .collect();
        let is_live = request.wait.listen(&channels) >= request.needed();
        let core = &request.units[0].parts[0].core;
        let left = if is_live {
            left + core.wait_jitter()
        } else {
            left
        };
        request.wait.sleep_counted(core, is_live, left);
        if split {
            // One release may have woken several clients.
            self.back_off(backoff_time(0, Duration::ZERO));
        }
    }

    /// Sleeps for `pause`. Messages do not end it: this thread's own releases sent some of them.
    fn back_off(&self, pause: Duration) {
        let Acquisition { budget, wait, .. } = &*self.acquisition;
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
