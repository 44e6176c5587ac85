//! The rounds of requests for a lock of which all parts are needed.
//!
//! Names of one server are acquired by one script, all or none. A call on several servers keeps the
//! granted ones for a short random time while another one is held. Then it releases them, and waits
//! without them. So calls cannot deadlock.

use std::sync::Arc;
use std::time::Duration;

use super::acquisition::Acquisition;
use super::line::{RARELY, deaf_sleep, longest_sleep};
use super::round::{HeldByOther, Replies};
use super::unit::First;
use crate::base::backoff::jitter;
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::OwnerId;
use crate::engine::parts::Part;
use crate::engine::wait::{Channel, wait_until};
use crate::error::{Error, LostReason, Result};
use crate::protocol::message::is_deaf;
use crate::request::Prepared;
use crate::watchdog::Refused;

/// The longest wait for a part while other parts are granted. The time is random: half of this to
/// one and a half times this, so that two clients that wait for each other do not always give way
/// together.
const KEPT: Duration = Duration::from_millis(50);

/// Bounds of the pauses while this client releases the lock.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

impl<'a> Acquisition<'a> {
    /// Requests all parts until they are granted, or the budget ends: then false. `first` is the
    /// first request, if it is sent already.
    pub(super) fn acquire_all(&mut self, mut first: Option<First>) -> Result<bool> {
        if first.is_none() {
            let first = self.units[0].parts[0];
            self.wait.listen_if_live(match self.place {
                Some(_) => first.channel().of_others(),
                None => first.channel(),
            });
            self.leave_to_others();
        }
        wait_until(self.call.budget, self.call.parts.name(), || {
            let replies = match first.take() {
                Some(first) => self.replies_to(first),
                None => {
                    if !self.regain_tickets()? {
                        return Ok(Some(false));
                    }
                    self.begin_round()?;
                    self.request()
                }
            };
            self.end_round(replies)
        })
    }

    /// Decides what follows a round, and waits for the next one: then `None`.
    fn end_round(&mut self, mut replies: Replies<'a>) -> Result<Option<bool>> {
        if !replies.failures.is_empty() {
            return self.after_failures(replies.failures);
        }
        let budget = self.call.budget;
        let is_over = budget.is_wait_over() || budget.reply_deadline().is_past();
        if let Some(confirmed) = replies.unreplicated {
            return self.after_unreplicated(confirmed, is_over);
        }
        if self.granted().count() == self.units.len() {
            return Ok(Some(true));
        }
        if replies.is_too_late && is_over {
            return Err(self.too_late_error());
        }
        match replies.held.pop() {
            Some(held) if !replies.is_too_late => return self.after_refusal(held),
            // The lease of a part has ended while this thread waited for the others.
            None if self.units.iter().all(|unit| unit.granted.is_some()) => self.undo(),
            _ => {}
        }
        Ok(None)
    }

    fn after_failures(&mut self, failures: Vec<Error>) -> Result<Option<bool>> {
        let budget = self.call.budget;
        let is_final = |error: &Error| !matches!(error, Error::Unavailable { .. });
        let is_over = budget.reply_deadline().is_past() || budget.is_interrupted();
        if self.units.len() == 1 || is_over || failures.iter().any(is_final) {
            return Err(self.call.parts.joined(failures, budget));
        }
        // One server does not reply. Meanwhile the locks of the others are free.
        self.undo();
        Ok(None)
    }

    /// Pauses after a grant that only this many replicas confirmed.
    fn after_unreplicated(&mut self, confirmed: u32, is_over: bool) -> Result<Option<bool>> {
        let first = self.units[0].parts[0];
        let budget = self.call.budget;
        self.undo();
        if is_over {
            return Err(first.core.redis.too_few_replicas(&first.key, confirmed));
        }
        self.unreplicated = Some(confirmed);
        self.claim.unreplicated(confirmed);
        // The message of that release would end the pause.
        self.wait.stop_listening();
        self.wait.sleep(false, budget.reply_deadline().left());
        Ok(None)
    }

    fn after_refusal(&mut self, held: HeldByOther<'a>) -> Result<Option<bool>> {
        self.replied();
        self.unreplicated = None;
        self.waiting.get_or_insert(self.expected_holds);
        if let Some(within) = self.within {
            // Nothing but the loss of that hold excludes this thread.
            within.lose(LostReason::Taken);
            return Err(within.loss_error(LostReason::Taken));
        }
        if self.call.budget.is_wait_over() {
            if held.is_own {
                return Err(self.too_late_error());
            }
            if !self.awaits_own_release(&held) {
                return Ok(Some(false));
            }
            self.undo();
            let pause = self.call.budget.elapsed() / 4;
            let pause = pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            self.wait.sleep_deaf(Moment::now().after(pause));
            return Ok(None);
        }
        self.await_release(held);
        Ok(None)
    }

    /// Waits until the lock that another owner holds may be free. Parts that are granted are kept
    /// for a short time only.
    fn await_release(&mut self, held: HeldByOther<'a>) {
        let Part { core, key, .. } = held.part;
        if held.rank.is_none() {
            // Without a line, the thread listens to releases, and a look finds nothing.
            self.line_wait = None;
        }
        let left = match (held.rank, self.place_in_line()) {
            (Some(rank), Some(place)) => {
                let refused = Refused {
                    rank,
                    listens: held.listens,
                    has_lease: true,
                    pending: held.pending,
                    asked: held.asked,
                };
                let unparker = self.call.budget.unparker();
                let wait = core.watchdog.wait_in_line(key, &place, unparker, refused);
                self.line_wait = Some(wait);
                match is_deaf(&place) {
                    true => deaf_sleep(rank),
                    false => longest_sleep(rank, held.left) + core.wait_jitter(),
                }
            }
            // Its turn in a queue without ranks, that of a fair lock, comes without a message. The
            // longer the client waits, the more clients may be before it.
            _ if core.subscriber.is_deaf(key, key.channel()) => {
                self.deaf_sleeps += 1;
                held.left.min(deaf_sleep(self.deaf_sleeps))
            }
            // A permit may come free before the first lease ends.
            _ if !held.part.kind.is_exclusive => held.left.min(RARELY) + core.wait_jitter(),
            _ => held.left + core.wait_jitter(),
        };
        if self.granted().next().is_some() {
            let lease = Duration::from_millis(self.units[0].terms.millis);
            let kept = jitter(KEPT.min(lease / 8));
            let kept_until = *self.kept_until.get_or_insert(Moment::now().after(kept));
            if self.wait_for_message(&held, left.min(kept_until.left())) {
                return;
            }
            self.undo();
        }
        let end = Moment::now().after(left);
        match self.tickets_until.map(|until| until.min(end)) {
            Some(until) if self.claim.locks().len() > 1 => {
                let is_woken = !until.is_past() && self.wait_for_message(&held, until.left());
                // A sleep without a subscription ends earlier.
                let goes_on = !is_woken && until.is_past() && until < end;
                if goes_on && self.give_way(held.part) {
                    self.wait_for_message(&held, end.left());
                }
            }
            _ => _ = self.wait_for_message(&held, left),
        }
    }

    /// Leaves the tickets of the other locks to other threads of this client, while another client
    /// holds this part. False if the subscriber thread has sent the next request.
    fn give_way(&mut self, part: &Part) -> bool {
        let request = self.prepared.as_ref().map(|(_, request)| request);
        let may_give_way = request.is_none_or(|request| request.cancel());
        if may_give_way {
            self.prepared = None;
            self.tickets_until = None;
            self.claim.give_way(&part.id);
        }
        may_give_way
    }

    /// Sleeps until a message announces a release, or calls this client, at most for `left`. True
    /// if one did.
    fn wait_for_message(&mut self, held: &HeldByOther<'a>, left: Duration) -> bool {
        let part = held.part;
        let mut channels: List<Channel<'a>> = List::new();
        if held.rank.is_some() {
            // In a cluster, the place is a channel of the first of several locks.
            let is_place = |part: &&&Part| self.place == Some(part.core.place(&part.key));
            let called = self.units[held.unit].parts.iter().filter(is_place);
            channels.extend(called.map(|part| part.channel().called(held.asked)));
        }
        if held.rank.is_none() {
            channels.push(part.channel());
        } else if held.listens {
            channels.push(part.channel().of_others());
        }
        self.prepared = self.prepare(part);
        let request = self.prepared.as_ref().map(|(_, request)| request);
        let is_woken = self
            .wait
            .sleep_listening(&part.core, &channels, request, left);
        // What is kept is not kept for longer.
        if let Some(pause) = self.pause.filter(|_| is_woken && self.kept_until.is_none()) {
            self.let_others_pass(Moment::now().after(pause.length));
        }
        is_woken
    }

    /// Prepares the next request, which the subscriber thread sends when a message arrives.
    fn prepare(&mut self, part: &Part) -> Option<(OwnerId, Arc<Prepared>)> {
        // With several requests, without all tickets, while it lets others pass, without a
        // subscription, or with replicas that have to confirm the lock, this thread sends them itself.
        let redis = &part.core.redis;
        let pauses = self.pause.is_some_and(|pause| pause.holds > 0);
        let is_deaf = self.place_in_line().is_some_and(|place| is_deaf(&place));
        let is_ready = self.units.len() == 1 && self.tickets_until.is_some();
        if !is_ready || pauses || is_deaf || redis.min_replicas.is_some() {
            return None;
        }
        let owner = part.new_owner();
        // Other threads may begin to wait behind this one.
        self.expected_holds = self.expected_holds.max(2);
        let call = self.units[0].call(&owner, &self.wish(true));
        self.is_known_to_wait = true;
        Some((owner, Prepared::new(redis, &part.key, call)))
    }
}
