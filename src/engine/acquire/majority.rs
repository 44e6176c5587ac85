//! Acquires a lock on a majority of several servers.
//!
//! Each round requests the lock from all servers at once. If a majority grants it, the lock is
//! acquired. Otherwise the round releases what was granted, and waits until other owners release
//! the lock.

use std::time::Duration;

use super::request::{HeldByOther, Replies, Request};
use super::turn::count_wake_up;
use crate::base::backoff::{Backoff, jitter};
use crate::base::clock::Moment;
use crate::engine::held::joined;
use crate::engine::parts::Part;
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

/// Pauses between rounds while no subscription can announce a release.
const POLL: Duration = Duration::from_millis(250);
const LONGEST_POLL: Duration = Duration::from_secs(2);

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

impl<'a> Request<'a> {
    /// Requests the lock until a majority grants it, or the budget ends: then false.
    pub(super) fn acquire_majority(&mut self) -> Result<bool> {
        let budget = self.budget;
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE).with_immediate_retry();
        let mut polls = Backoff::new(POLL * 2, LONGEST_POLL);
        let mut backoffs = 0;
        // For all rounds in a row without enough replies.
        let mut reply_deadline = None;
        // While the servers are split, no client holds the lock. So also a call without a wait
        // tries until one client has it.
        let decided_by = budget.call_deadline();
        let mut pause = self.leave_to_others();
        loop {
            self.begin_round()?;
            let end = *reply_deadline.get_or_insert_with(|| budget.reply_deadline());
            let asked = Moment::now();
            let replies = self.request();
            self.end_pause(pause.take(), &replies);
            let outcome = self.decide(replies)?;
            let took = Moment::now().since(asked);
            if !matches!(outcome, MajorityOutcome::Unanswered(_)) {
                self.claim.replied();
                reply_deadline = None;
            }
            let is_undecided = match outcome {
                MajorityOutcome::Split => true,
                MajorityOutcome::HeldByOthers { split, .. } => split && backoffs < MAX_BACKOFFS,
                _ => false,
            };
            match outcome {
                MajorityOutcome::Acquired => return Ok(true),
                MajorityOutcome::Unanswered(error) => {
                    // This round's own releases would wake the listeners, and end the pause.
                    self.listeners.clear();
                    budget.park(pauses.next().min(end.left()));
                    if end.is_past() && !budget.is_interrupted() {
                        return Err(error);
                    }
                }
                _ if budget.is_wait_over() && (!is_undecided || decided_by.is_past()) => {
                    return Ok(false);
                }
                _ if is_undecided => {
                    self.back_off(backoff_time(backoffs, took), decided_by);
                    backoffs += 1;
                }
                MajorityOutcome::Split => {}
                MajorityOutcome::HeldByOthers { held, left, split } => {
                    let left = if split {
                        // The other owners may be clients that try, too.
                        left.min(jitter(polls.next()))
                    } else {
                        polls.reset();
                        backoffs = 0;
                        left
                    };
                    self.await_majority(&held, left);
                    if split {
                        // One release may have woken several clients.
                        self.back_off(backoff_time(0, Duration::ZERO), decided_by);
                    }
                }
            }
            budget.check_interrupt(self.parts.name())?;
        }
    }

    /// Decides what follows a round. Releases what a minority granted.
    fn decide(&mut self, replies: Replies<'a>) -> Result<MajorityOutcome> {
        let (needed, servers) = (self.needed(), self.units.len());
        let granted: Vec<usize> = self.granted().collect();
        let refusals = |error: &&Error| !matches!(error, Error::Unavailable { .. });
        if replies.failures.iter().filter(refusals).count() + needed > servers {
            return Err(joined(self.parts.label(), replies.failures, self.budget));
        }
        if granted.len() >= needed {
            return Ok(MajorityOutcome::Acquired);
        }
        self.undo();
        if granted.len() + replies.held.len() < needed {
            let error = if replies.is_too_late {
                self.too_late_error()
            } else {
                joined(self.parts.label(), replies.failures, self.budget)
            };
            return Ok(MajorityOutcome::Unanswered(error));
        }
        if !granted.is_empty() && replies.held.len() < needed {
            return Ok(MajorityOutcome::Split);
        }
        let is_competitor = |held: &HeldByOther| self.minority_grants.contains(&held.unit);
        let (by_competitors, mut held): (Vec<_>, Vec<_>) =
            replies.held.into_iter().partition(is_competitor);
        if held.len() < needed {
            // Another owner has acquired a majority since.
            held.extend(by_competitors);
            self.minority_grants.clear();
        }
        self.minority_grants.extend(granted);
        held.sort_unstable_by_key(|held| held.left);
        let missing = needed - self.minority_grants.len();
        Ok(MajorityOutcome::HeldByOthers {
            left: held.get(missing - 1).map_or(POLL, |held| held.left),
            split: !self.minority_grants.is_empty(),
            held,
        })
    }

    /// Sleeps until a message announces a release, at most for what is `left` of the lease. Listens
    /// where other owners hold the lock. If these servers are a majority, no release is missed,
    /// because two majorities have a server in common.
    fn await_majority(&mut self, held: &[HeldByOther], left: Duration) {
        let parts: Vec<&'a Part> = held
            .iter()
            .map(|&held| self.part(held))
            .filter(|part| !part.core.redis.is_unresponsive(&part.key))
            .collect();
        let is_live = self.listeners.listen(&parts) >= self.needed();
        let core = &self.units[0].parts[0].core;
        let pause = if is_live {
            left + core.wait_jitter()
        } else {
            left.min(POLL)
        };
        count_wake_up(core, self.budget.wait(pause));
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
