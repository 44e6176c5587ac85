//! The waits between the requests for a lock of which all parts are needed.

use std::time::Duration;

use super::request::{HeldByOther, Request};
use super::turn::count_wake_up;
use crate::base::backoff::jitter;
use crate::base::clock::Moment;
use crate::engine::held::{Needed, joined};
use crate::engine::parts::Part;
use crate::engine::undo::release_unused;
use crate::error::{Error, LostReason, Result};
use crate::request::Prepared;

/// The longest wait for a part while other parts are granted. The time is random: half of this to
/// one and a half times this, so that two clients that wait for each other do not always give way
/// together.
const KEPT: Duration = Duration::from_millis(50);

impl<'a> Request<'a> {
    /// Requests all parts until they are granted, or the budget ends: then false.
    pub(super) fn acquire_all(&mut self) -> Result<bool> {
        let budget = self.budget;
        self.listeners.listen_if_live(self.units[0].parts[0]);
        let mut pause = self.leave_to_others();
        loop {
            self.begin_round()?;
            let mut replies = self.request();
            self.end_pause(pause.take(), &replies);
            if self.granted().count() == self.units.len() {
                return Ok(true);
            }
            let unused = std::mem::take(&mut replies.unused);
            if !unused.is_empty() {
                let timeout = self.units[0].parts[0].core.command_timeout;
                release_unused(unused, Needed::All, &budget.for_cleanup(timeout));
            }
            if !replies.failures.is_empty() {
                let is_final = |error: &Error| !matches!(error, Error::Unavailable { .. });
                let is_over = budget.reply_deadline().is_past() || budget.is_interrupted();
                if self.units.len() == 1 || is_over || replies.failures.iter().any(is_final) {
                    return Err(joined(self.parts.label(), replies.failures, budget));
                }
                // One server does not reply. Meanwhile the locks of the others are free.
                self.undo();
                self.silent = replies.silent;
                continue;
            }
            let is_over = budget.is_wait_over() || budget.reply_deadline().is_past();
            if let Some(confirmed) = replies.unreplicated {
                self.undo();
                let first = self.units[0].parts[0];
                if is_over {
                    return Err(first.core.redis.too_few_replicas(&first.key, confirmed));
                }
                self.claim.unreplicated(confirmed);
                // No other client holds the lock, and the release above would wake a listener.
                self.listeners.clear();
                budget.wait(self.polls.next().min(budget.reply_deadline().left()));
                budget.check_interrupt(self.parts.name())?;
                continue;
            }
            if replies.is_too_late {
                if is_over {
                    return Err(self.too_late_error());
                }
                continue;
            }
            let Some(held) = replies.held.pop() else {
                if self.units.iter().all(|unit| unit.granted.is_some()) {
                    // The lease of a part has ended while this thread waited for the others.
                    self.undo();
                }
                continue;
            };
            self.claim.replied();
            if let Some(within) = self.within {
                // Nothing but the loss of that hold excludes this thread.
                within.lose(LostReason::Taken);
                return Err(within.loss_error(LostReason::Taken));
            }
            if budget.is_wait_over() {
                return match held.is_own {
                    true => Err(self.too_late_error()),
                    false => Ok(false),
                };
            }
            self.await_release(held);
            budget.check_interrupt(self.parts.name())?;
        }
    }

    /// Waits until the lock that another owner holds may be free. Parts that are granted are kept
    /// for a short time only.
    fn await_release(&mut self, held: HeldByOther) {
        let part = self.part(held);
        let left = held.left + part.core.wait_jitter();
        if self.granted().next().is_some() {
            let lease = Duration::from_millis(self.units[0].terms.millis);
            let kept = jitter(KEPT.min(lease / 8));
            let kept_until = *self.kept_until.get_or_insert(Moment::now().after(kept));
            if self.wait_for_message(part, left.min(kept_until.left())) {
                return;
            }
            self.undo();
        }
        let now = Moment::now();
        let end_of_hold = self.rival.end_of_hold();
        match end_of_hold.filter(|_| self.units.len() == 1) {
            Some(end) if now < end.start => {
                self.wait_for_message(part, left.min(end.start.since(now)))
            }
            // The lock is requested again at once.
            Some(end) if now < end.end => self.hear(self.budget.take_wake_up()),
            _ => self.wait_for_message(part, left),
        };
    }

    /// Prepares the next request, which the subscriber thread sends when a message arrives.
    fn prepare(&mut self, part: &Part) {
        // With several requests, or after a pause, this thread sends them itself.
        if self.units.len() > 1 || self.after_release.is_some() {
            return;
        }
        let (core, unit) = (&part.core, &self.units[0]);
        let owner = part.new_owner();
        // Other threads may begin to wait behind this one.
        self.wanted_holds = self.wanted_holds.max(2);
        let call = unit.call(&owner, &self.wish(true));
        self.is_known_to_wait = true;
        let request = Prepared::new(&core.redis, &part.key, call);
        self.listeners.prepare(part, &request);
        self.prepared = Some((owner, request));
    }

    /// Sleeps until a message announces a release, at most for `left`. True if one did.
    fn wait_for_message(&mut self, part: &'a Part, left: Duration) -> bool {
        let is_live = self.listeners.listen(&[part]) > 0;
        // Without a confirmed subscription, only the next request notices a release.
        let poll = self.polls.next();
        let pause = if is_live { left } else { left.min(poll) };
        self.prepare(part);
        let is_woken = self.budget.wait(pause);
        count_wake_up(&part.core, is_woken);
        self.hear(is_woken)
    }

    /// Notes a message that has announced a release. Returns whether this thread was woken.
    fn hear(&mut self, is_woken: bool) -> bool {
        if self.budget.take_message() {
            self.rival.released(Moment::now());
        }
        if is_woken {
            self.let_others_go_first();
        }
        is_woken
    }
}
