//! One call that acquires the missing parts of a lock: its state, and its end.

use std::sync::Arc;
use std::time::Duration;

use super::begin::{TicketsLost, keep, take_without_request};
use super::unit::{First, Unit};
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::OwnerId;
use crate::engine::group::{GrantRequest, release_unused};
use crate::engine::held::{HeldPart, Needed};
use crate::engine::local_wait::{give_up, wait_for_claim};
use crate::engine::parts::{LockCall, Missing, Part};
use crate::engine::wait::{Wait, polls};
use crate::error::{Error, Result};
use crate::local::{Claim, Granted, Hold, Pause};
use crate::protocol::{Verdict, Wish, verdict};
use crate::request::{Prepared, Request};
use crate::watchdog::LineWait;

/// The largest number of lines that a client enters by one request. It bounds the time of a script.
const LINES: usize = 32;

/// For how long a thread that waits for one of several locks keeps other threads of its client from
/// the others. So it gets its turn in lines that move fast.
const KEPT_TICKETS: Duration = Duration::from_secs(1);

/// One call that acquires the missing parts of a lock.
pub(super) struct Acquisition<'a> {
    pub(super) call: LockCall<'a>,
    missing: &'a [Missing<'a>],
    /// Until when this thread keeps the tickets of several locks while it waits for one of them;
    /// `None` if it has given tickets back.
    pub(super) tickets_until: Option<Moment>,
    pub(super) units: List<Unit<'a>>,
    pub(super) claim: Claim,
    pub(super) wait: Wait<'a>,
    /// How this thread leaves the lock to other clients. Set if this client has released it while
    /// they listened.
    pub(super) pause: Option<Pause>,
    /// The number of holds that are expected to share the grant.
    pub(super) expected_holds: usize,
    /// The place of this client in the lines of its locks, if they have lines.
    pub(super) place: Option<Arc<str>>,
    /// The thread waits for a permit, but its first request does not: it only leaves permits that
    /// are reserved for other clients.
    pub(super) leaves_reserved: bool,
    /// While the client has a place in the line.
    pub(super) line_wait: Option<LineWait<'a>>,
    /// The number of threads that waited here before the first request that was refused, with this
    /// one. That request may have taken a place, and later threads came after it.
    pub(super) waiting: Option<usize>,
    /// The next request, which the subscriber thread may have sent already, and its owner id.
    pub(super) prepared: Option<(OwnerId, Arc<Prepared>)>,
    /// How often this thread slept in a queue without ranks, and without a subscription.
    pub(super) deaf_sleeps: u32,
    /// Until when granted parts are kept while this thread waits for the others.
    pub(super) kept_until: Option<Moment>,
    /// The exclusive hold of this thread, if it acquires a shared one of the same lock.
    pub(super) within: Option<&'a Hold>,
    /// Redis may know that this client waits: it has a place in a line or a queue.
    pub(super) is_known_to_wait: bool,
    /// A refusal named this client as the owner, no release was known, and the thread asked again.
    pub(super) has_asked_again: bool,
    /// The log says that no release can end this wait.
    pub(super) is_logged: bool,
    /// The parts that another thread handed over, or that were idle, after this thread had given
    /// tickets back.
    without_request: Option<List<HeldPart>>,
    /// Set if the last reply was a grant that only this many replicas confirmed: too few.
    pub(super) unreplicated: Option<u32>,
    /// The owner of the last grant that had ended when its reply arrived.
    pub(super) late: Option<OwnerId>,
}

impl<'a> Acquisition<'a> {
    pub(super) fn new(
        call: LockCall<'a>,
        missing: &'a [Missing<'a>],
        (units, claim): (List<Unit<'a>>, Claim),
        within: Option<&'a Hold>,
    ) -> Self {
        let first = units[0].parts[0];
        // A script enters the lines of one slot. A thread that has the lock does not wait for other
        // clients.
        let is_small = units.len() == 1 && units[0].parts.len() <= LINES;
        let has_line = is_small && first.kind.has_line && within.is_none();
        Self {
            place: has_line.then(|| first.core.place(&first.key)),
            call,
            missing,
            tickets_until: Some(Moment::now().after(KEPT_TICKETS)),
            without_request: None,
            wait: Wait::new(call.budget, polls()),
            units,
            is_known_to_wait: claim.is_inherited,
            claim,
            pause: None,
            kept_until: None,
            deaf_sleeps: 0,
            expected_holds: 1,
            waiting: None,
            prepared: None,
            leaves_reserved: false,
            line_wait: None,
            within,
            has_asked_again: false,
            is_logged: false,
            unreplicated: None,
            late: None,
        }
    }

    /// The number of units that must be granted.
    pub(super) fn needed(&self) -> usize {
        self.call.parts.needed.of(self.units.len())
    }

    /// The units that are granted, and whose leases have not ended.
    pub(super) fn granted(&self) -> impl Iterator<Item = usize> {
        let now = Moment::now();
        let lasts = move |granted: &Granted| !granted.is_over(now);
        let is_granted = move |unit: &Unit<'_>| unit.granted.as_ref().is_some_and(lasts);
        let units = self.units.iter().enumerate();
        units.filter_map(move |(at, unit)| is_granted(unit).then_some(at))
    }

    /// Requests the lock until it is granted, or the budget ends. If this returns without it,
    /// nothing is left of the requests. `first` is the first request, if it is sent already.
    pub(super) fn run(mut self, first: Option<First>) -> Result<Option<List<HeldPart>>> {
        let is_granted = match self.call.parts.needed {
            Needed::All => self.acquire_all(first),
            Needed::Majority(_) => self.acquire_majority(),
        };
        let is_granted = is_granted.map_err(|error| self.error_of_call(error));
        if let Some(held) = self.without_request.take() {
            // What its client has got, the thread does not wait for any more.
            let parts = self.units.iter().flat_map(|unit| &unit.parts);
            parts.for_each(|part| self.leave_if_called(part));
            return Ok(Some(held));
        }
        if let Ok(true) = is_granted {
            return Ok(Some(self.keep()));
        }
        self.undo();
        self.give_up();
        is_granted.map(|_| None)
    }

    /// The error of a call that fails with this one: too few replicas, if the last reply to this
    /// thread, or to the one that had the tickets before it, was such a grant.
    fn error_of_call(&self, error: Error) -> Error {
        let queue = &self.call.core.queue;
        let confirmed = || queue.confirmed_replicas(self.claim.locks());
        match (&error, self.unreplicated.or_else(confirmed)) {
            (Error::Unavailable { .. }, Some(confirmed)) => {
                let first = self.units[0].parts[0];
                first.core.redis.too_few_replicas(&first.key, confirmed)
            }
            _ => error,
        }
    }

    /// Takes the tickets back that this thread gave to other threads while it waited for one of
    /// several locks. If that needs a wait, it waits without any ticket, so that calls of this
    /// process cannot deadlock. It still listens, and its place in the line stays. True if it may
    /// request the locks. Otherwise it has got them without a request, or the budget has ended.
    pub(super) fn regain_tickets(&mut self) -> Result<bool> {
        if self.tickets_until.is_some() {
            return Ok(true);
        }
        self.tickets_until = Some(Moment::now().after(KEPT_TICKETS));
        Ok(self.claim.regain(Moment::now()) || self.wait_for_tickets()?)
    }

    fn wait_for_tickets(&mut self) -> Result<bool> {
        loop {
            self.claim.give_up();
            let Some(claim) = wait_for_claim(self.call, self.missing, true)? else {
                return Ok(false);
            };
            self.claim = claim;
            self.tickets_until = Some(Moment::now().after(KEPT_TICKETS));
            self.call.budget.check_interrupt(self.call.parts.name())?;
            match take_without_request(self.call, self.missing, &mut self.claim) {
                Ok(None) => return Ok(true),
                Ok(held) => {
                    self.without_request = held;
                    return Ok(false);
                }
                Err(TicketsLost) => {}
            }
        }
    }

    /// Begins the holds of what is granted.
    pub(super) fn keep(mut self) -> List<HeldPart> {
        if let Some(wait) = self.line_wait.take() {
            wait.granted();
        }
        if let Some(pause) = self.pause.filter(|pause| !pause.is_in_line) {
            self.claim.end_pause(&pause);
        }
        keep(self.call, self.claim, &self.units)
    }

    /// What the next request is for. The thread `waits` if the lock is held.
    pub(super) fn wish(&self, waits: bool) -> Wish {
        let first = &self.units[0];
        Wish {
            holds: first.parts[0].holds_of_a_grant(first.terms, self.expected_holds),
            waits: waits || self.leaves_reserved,
            place: self
                .place_in_line()
                .filter(|_| waits || self.is_known_to_wait),
            within: self.within.map(|hold| hold.grant().owner().clone()),
        }
    }

    /// The place of this client as it stands in the lines.
    pub(super) fn place_in_line(&self) -> Option<Arc<str>> {
        let Part { core, key, .. } = self.units[0].parts[0];
        let place = self.place.as_ref();
        place.map(|place| core.subscriber.in_line(key, place))
    }

    /// If this client has released the lock while other clients listened: waits until they have had
    /// it, or could have acquired it.
    pub(super) fn leave_to_others(&mut self) {
        let budget = self.call.budget;
        if budget.is_wait_over() {
            return;
        }
        let pause = self.claim.take_pause();
        self.pause = pause.filter(|pause| pause.is_in_line || !pause.until.is_past());
        if let Some(pause) = &mut self.pause {
            // The rest of a limited wait is for requests.
            let most = (budget.wait_left() / 2).div_duration_f32(pause.length);
            pause.holds = pause.holds.min(most as u32).max(1);
        }
        let Some(pause) = self.pause.filter(|pause| !pause.is_in_line) else {
            return;
        };
        let wait_until = Moment::now().after(budget.wait_left());
        self.wait.sleep_deaf(pause.deaf_until.min(wait_until));
        budget.take_wake_up();
        self.let_others_pass(pause.until);
    }

    /// Waits until the other clients have had the lock as often as the pause says. The next of them
    /// has until `until` to acquire and release it.
    pub(super) fn let_others_pass(&mut self, mut until: Moment) {
        let Some(pause) = &mut self.pause else { return };
        while pause.holds > 0 && self.call.budget.wait(until.left()) {
            pause.pass();
            until = Moment::now().after(pause.length);
        }
    }

    /// Releases what is granted. What gets no reply is released in the background.
    pub(super) fn undo(&mut self) {
        let LockCall { core, budget, .. } = self.call;
        self.kept_until = None;
        if let Some((owner, prepared)) = self.prepared.take() {
            self.units[0].undo_lost_copies(&owner, prepared.abandon());
            self.is_known_to_wait = true;
        }
        let mut unused: List<GrantRequest<'_>> = List::new();
        let mut ends = Moment::ZERO;
        for unit in &mut self.units {
            if let Some(grant) = unit.granted.take() {
                ends = ends.max(unit.end());
                unused.extend(unit.releases(&grant.owner));
            }
        }
        let needed = match self.call.parts.needed {
            Needed::All => Needed::All,
            // Each server gets one request.
            Needed::Majority(_) => Needed::Majority(unused.len()),
        };
        let budget = budget.remaining(core.command_timeout);
        release_unused(unused, ends, needed, &budget);
    }

    /// True if this thread may have the place of the client in a line, and another thread of the
    /// client wants the lock. The place stays for that thread.
    pub(super) fn leaves_place(&self) -> bool {
        self.is_known_to_wait && self.claim.is_wanted_by_others()
    }

    /// Tells Redis that this client does not wait any more, before the tickets are passed on, so
    /// that it cannot affect the wait of the next thread. But if another thread of the client wants
    /// the lock already, that thread gets the ticket at once, and the place stays for it.
    ///
    /// Each server gets one request, and all of them take at most
    /// [`GRACE`](crate::base::call_budget::GRACE). None is repeated: all waits of the client have
    /// the same place, and a late copy could end a later wait. A server that did not reply to the
    /// last request gets one in the background.
    fn give_up(&mut self) {
        if !self.is_known_to_wait {
            // Its last request has left the line.
            return;
        }
        let wanted = self.claim.leave_to_others();
        let (mut requests, mut parts) = (List::new(), Vec::new());
        let place = self.place_in_line();
        for unit in &self.units {
            for &part in &unit.parts {
                let Part {
                    core, key, kind, ..
                } = part;
                let call = (kind.give_up)(key, &core.owner_prefix, place.as_deref());
                let Some(call) = call.filter(|_| !wanted.contains(&part.id)) else {
                    continue;
                };
                if unit.is_unanswered {
                    self.leave_if_called(part);
                    continue;
                }
                requests.push(Request::new(&core.redis, key, call));
                parts.push(part);
            }
        }
        if !requests.is_empty() {
            let budget = self.call.budget.to_give_up();
            // Unlike a request to all, one to a majority is not repeated.
            let once = Needed::Majority(requests.len());
            let replies = once.request(&requests, |_| true, |_| None, &budget);
            for (Part { core, key, .. }, reply) in parts.into_iter().zip(replies) {
                if reply.is_ok_and(|reply| verdict(&reply.reply).is_ok_and(Verdict::has_called)) {
                    core.watchdog.called(key);
                }
            }
        }
    }

    /// Leaves the line in the background, if this client was called and has not answered.
    fn leave_if_called(&self, part: &Part) {
        if let Some(place) = self.place_in_line() {
            part.core.leave_if_called(&part.key, &place);
        }
    }

    /// Gives up before the first request.
    pub(super) fn abandon(mut self) {
        self.give_up();
        give_up(self.claim, self.missing);
    }

    /// The error of a call whose grants all arrived after the end of their lease.
    pub(super) fn too_late_error(&self) -> Error {
        let Part { core, key, .. } = self.units[0].parts[0];
        let cause = "every reply arrived after the lease that it granted had ended";
        core.redis.unavailable(key, self.call.budget, cause.into())
    }
}
