//! The locks of one call that its thread does not hold, and what the call has of each: a ticket,
//! and then a level or a grant. For a majority also one round of requests.

use std::time::Duration;

use super::grouped::{GrantRequest, request_each};
use super::{CompositeCall, Missing, Needed};
use crate::base::Moment;
use crate::engine::{
    Ask, HeldLock, LockCall, NotGranted, SingleLock, Wait, give_up, keep, no_reply,
    take_without_request, wait_for_claim,
};
use crate::error::{Error, Result};
use crate::local::{Claim, Granted, Pause};
use crate::protocol::AcquireOptions;

/// The locks of one call that its thread does not hold.
pub(super) struct Seats<'a> {
    pub(super) call: CompositeCall<'a>,
    pub(super) seats: Vec<Seat<'a>>,
}

/// A lock, and what this call has of it.
pub(super) struct Seat<'a> {
    /// Its index among the locks that the thread did not hold at first.
    pub(super) at: usize,
    pub(super) part: LockCall<'a>,
    /// The ticket, while no other thread of the process has it.
    pub(super) claim: Option<Claim>,
    /// A level on a grant that another thread handed over, or that was idle.
    level: Option<HeldLock>,
    pub(super) granted: Option<Granted>,
}

/// What a round of requests has brought.
#[derive(Default)]
pub(super) struct Replies {
    /// The servers at which other owners have the lock.
    pub(super) refused: Vec<HeldAt>,
    pub(super) failures: Vec<Error>,
    /// A grant had ended when its reply arrived.
    pub(super) is_too_late: bool,
}

/// A server at which another owner has the lock.
pub(super) struct HeldAt {
    pub(super) seat: usize,
    /// What is left of the lease.
    pub(super) left: Duration,
    /// The owner is this client: no thread has the lock, and it may be about to be released.
    pub(super) is_of_client: bool,
}

impl Seat<'_> {
    /// Keeps a ticket, and what came with it. False after a loss: the ticket is gone.
    pub(super) fn take(&mut self, mut claim: Claim) -> bool {
        let taken = take_without_request(self.part, &mut claim);
        let is_taken = taken.is_ok();
        if let Ok(level) = taken {
            (self.level, self.claim) = (level, Some(claim));
        }
        is_taken
    }

    /// True if the lock has to be requested.
    pub(super) fn is_asked(&self) -> bool {
        self.claim.is_some() && self.level.is_none() && self.granted.is_none()
    }

    /// Begins a request. Returns the number of holds that are expected to share the grant.
    pub(super) fn begin_request(&self) -> usize {
        self.claim
            .as_ref()
            .map_or(1, |claim| claim.begin_request().1)
    }

    fn has(&self, now: Moment) -> bool {
        let lasts = |granted: &Granted| !granted.is_over(now);
        let is_held = |level: &HeldLock| level.hold.check().is_ok();
        self.level.as_ref().is_some_and(is_held) || self.granted.as_ref().is_some_and(lasts)
    }
}

impl<'a> Seats<'a> {
    /// The `missing` locks with these indices, before any ticket is taken.
    pub(super) fn new(
        call: CompositeCall<'a>,
        missing: &'a [Missing<'a>],
        indices: impl Iterator<Item = usize>,
    ) -> Self {
        let seat = |at: usize| Seat {
            at,
            part: call.part(missing, at),
            claim: None,
            level: None,
            granted: None,
        };
        Self {
            call,
            seats: indices.map(seat).collect(),
        }
    }

    /// The number of locks that are needed.
    pub(super) fn needed(&self) -> usize {
        self.call.composite.needed.of(self.seats.len())
    }

    /// Takes the tickets of all servers, and what came with them. False if the wait ends first.
    pub(super) fn take_tickets(&mut self) -> Result<bool> {
        self.give_back(|seat| {
            seat.level
                .as_ref()
                .is_some_and(|level| level.check().is_err())
        });
        while let Some(at) = self.seats.iter().position(|seat| seat.claim.is_none()) {
            let part = self.seats[at].part;
            if let Some(claim) = part.lock.enter_queue(Moment::now()).claim {
                self.seats[at].take(claim);
                continue;
            }
            self.give_back(|_| true);
            let Some(claim) = wait_for_claim(part)? else {
                return Ok(false);
            };
            let composite = self.call.composite;
            if let Err(error) = self.call.budget.check_interrupt(composite.name()) {
                give_up(claim, part.lock);
                return Err(error);
            }
            self.seats[at].take(claim);
        }
        Ok(true)
    }

    /// Gives the tickets of these servers back, and what came with them. The first ticket last: a
    /// thread that waits for it finds the others free, and does not have to wait for them behind
    /// another thread.
    fn give_back(&mut self, is_given: impl Fn(&Seat<'_>) -> bool) {
        let given = self.seats.iter_mut().rev().filter(|seat| is_given(seat));
        let levels = given.filter_map(|seat| {
            seat.claim = None;
            seat.level.take()
        });
        let levels = levels.collect();
        self.call.release(levels);
    }

    /// Leaves the lock to other clients, if this one has released it while they listened.
    pub(super) fn pause(&self, wait: &Wait<'_>) {
        let budget = self.call.budget;
        let claims = self.seats.iter().filter_map(|seat| seat.claim.as_ref());
        let pauses = claims.filter_map(Claim::take_pause).count();
        if pauses > 0 && !budget.is_wait_over() {
            wait.sleep_deaf(Moment::now().after(Pause::EACH.min(budget.wait_left())));
        }
    }

    /// The servers that have the lock for this call.
    pub(super) fn held(&self) -> Vec<usize> {
        let now = Moment::now();
        self.find(|seat| seat.has(now))
    }

    fn find(&self, is_found: impl Fn(&Seat<'a>) -> bool) -> Vec<usize> {
        let all = 0..self.seats.len();
        all.filter(|&at| is_found(&self.seats[at])).collect()
    }

    /// Begins a round. Returns when the replies must have arrived. Fails if there was no reply for
    /// too long.
    pub(super) fn begin_round(&mut self) -> Result<Moment> {
        let budget = self.call.budget;
        let SingleLock { core, key, .. } = self.seats[0].part.lock;
        let first = &self.seats[0];
        let begun = first.claim.as_ref().map(|claim| claim.begin_request().0);
        budget.set_unanswered_since(Some(begun.unwrap_or_else(Moment::now)));
        let deadline = budget.reply_deadline();
        match deadline.is_past() {
            true => Err(no_reply(core, key, budget)),
            false => Ok(deadline),
        }
    }

    /// Notes that enough servers have replied: a sleep that follows is no time without a reply.
    pub(super) fn replied(&self) {
        let claims = self.seats.iter().filter_map(|seat| seat.claim.as_ref());
        claims.for_each(Claim::replied);
        self.call.budget.set_unanswered_since(None);
    }

    /// Requests the lock from the servers that do not have it for this call.
    pub(super) fn request(&mut self) -> Replies {
        let budget = self.call.budget;
        let asked = self.find(Seat::is_asked);
        let ask = |&at: &usize| {
            let LockCall { lock, terms, .. } = self.seats[at].part;
            let options = AcquireOptions {
                holds: lock.holds_of_a_grant(terms, self.seats[at].begin_request()),
                waits: !budget.is_wait_over(),
                ..AcquireOptions::default()
            };
            (Ask::new(lock, terms), options)
        };
        let mut asks: Vec<(Ask<'a>, AcquireOptions)> = asked.iter().map(ask).collect();
        let needed = Needed::Majority(self.needed()).less(self.held().len());
        let answers = needed.ask(&mut asks, Moment::NEVER, budget);
        let mut replies = Replies::default();
        for (at, answer) in asked.into_iter().zip(answers) {
            let seat = &mut self.seats[at];
            match answer {
                Ok(granted) => seat.granted = Some(granted),
                Err(NotGranted::TooLate(_)) => replies.is_too_late = true,
                Err(NotGranted::Failed(_, error)) => replies.failures.push(error),
                Err(NotGranted::Refused(refusal)) => {
                    if refusal.is_foreign()
                        && let Some(claim) = &seat.claim
                    {
                        claim.note_passed(Some(&refusal.owner));
                    }
                    replies.refused.push(HeldAt {
                        seat: at,
                        left: refusal.left(),
                        is_of_client: refusal.is_of_client(seat.part.lock),
                    });
                    budget.note_holder(refusal.owner);
                }
            }
        }
        replies
    }

    /// Takes the ticket of a lock that was refused.
    pub(super) fn take_claim(&mut self, at: usize) -> Option<Claim> {
        let mut seats = self.seats.iter_mut();
        let refused = seats.find(|seat| seat.at == at && seat.is_asked())?;
        refused.claim.take()
    }

    /// Releases what this call has. A grant whose release gets no reply is released in the
    /// background.
    pub(super) fn undo(&mut self) {
        self.give_back(|seat| seat.level.is_some());
        let granted = self.seats.iter_mut().filter_map(|seat| {
            let granted = seat.granted.take()?;
            let SingleLock {
                core, key, kind, ..
            } = seat.part.lock;
            let call = kind.release(key, &granted.owner);
            Some((GrantRequest { core, key, call }, seat.part.lease_ends()))
        });
        let (releases, ends): (Vec<GrantRequest<'_>>, Vec<Moment>) = granted.unzip();
        if releases.is_empty() {
            return;
        }
        let CompositeCall { core, budget, .. } = self.call;
        let budget = budget.remaining(core.command_timeout);
        let replies = request_each(&releases.iter().collect::<Vec<_>>(), Needed::All, &budget);
        for ((release, reply), lease_ends) in releases.into_iter().zip(replies).zip(ends) {
            if reply.is_err() {
                release.later(lease_ends);
            }
        }
    }

    /// Begins the holds, and gives the other tickets back. Returns the levels and their indices.
    pub(super) fn keep(self) -> Vec<(usize, HeldLock)> {
        let level = |seat: Seat<'a>| {
            let new = || Some(keep(seat.part, seat.claim?, seat.granted?));
            Some((seat.at, seat.level.or_else(new)?))
        };
        self.seats.into_iter().filter_map(level).collect()
    }
}
