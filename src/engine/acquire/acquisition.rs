//! One call that acquires the missing parts of a lock: its state, and its end.

use std::sync::Arc;
use std::time::Duration;

use super::begin::keep;
use super::first::First;
use super::line::Polls;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::OwnerId;
use crate::engine::group::{GrantRequest, group};
use crate::engine::held::{HeldPart, Needed};
use crate::engine::parts::{LockCall, Missing, Part};
use crate::engine::undo::{end_of, release_unused, undo_lost_copies};
use crate::engine::wait::{Wait, polls};
use crate::error::{Error, Result};
use crate::lease::Terms;
use crate::local::{Claim, Granted, Hold, Pause};
use crate::protocol::Wish;
use crate::request::{Prepared, Request};
use crate::script::Call;

/// The largest number of lines that a client enters by one request. It bounds the time of a script.
const LINES: usize = 32;

/// One call that acquires the missing parts of a lock.
pub(super) struct Acquisition<'a> {
    pub(super) call: LockCall<'a>,
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
    /// When this thread asks without being called.
    pub(super) polls: Polls,
    /// The number of threads that waited here when the lock was refused for the first time.
    pub(super) waiting: Option<usize>,
    /// The next request, which the subscriber thread may have sent already, and its owner id.
    pub(super) prepared: Option<(OwnerId, Arc<Prepared>)>,
    /// Until when granted parts are kept while this thread waits for the others.
    pub(super) kept_until: Option<Moment>,
    /// The exclusive hold of this thread, if it acquires a shared one of the same lock.
    pub(super) within: Option<&'a Hold>,
    /// Redis may know that this client waits: it has a place in a line or a queue.
    pub(super) is_known_to_wait: bool,
    /// The log says that no release can end this wait.
    pub(super) is_logged: bool,
    /// The owner of the last grant that had ended when its reply arrived.
    pub(super) late: Option<OwnerId>,
}

/// The parts that share one request, which grants all of them or none.
pub(super) struct Unit<'a> {
    pub(super) parts: List<&'a Part>,
    pub(super) terms: Terms,
    pub(super) granted: Option<Granted>,
    /// The last request had no reply.
    pub(super) is_unanswered: bool,
}

/// A lock that another owner holds.
pub(super) struct HeldByOther<'a> {
    pub(super) unit: usize,
    pub(super) part: &'a Part,
    /// What is left of the lease.
    pub(super) left: Duration,
    /// The number of clients before this one in the line; `None` if it is in no line.
    pub(super) rank: Option<u32>,
    /// The owner is a client of Redisson.
    pub(super) is_foreign: bool,
    /// This client also listens to the channel for releases: clients of Redisson do not call those
    /// in the line.
    pub(super) listens: bool,
    /// A moment before the request was sent.
    pub(super) asked: Moment,
    /// Redis still has what it granted to this call too late.
    pub(super) is_own: bool,
}

/// The replies of all servers to one round of requests.
#[derive(Default)]
pub(super) struct Replies<'a> {
    pub(super) held: Vec<HeldByOther<'a>>,
    pub(super) failures: Vec<Error>,
    /// Set if too few replicas confirmed a grant, which does not count: how many did.
    pub(super) unreplicated: Option<u32>,
    /// A grant had ended when its reply arrived.
    pub(super) is_too_late: bool,
}

impl<'a> Acquisition<'a> {
    pub(super) fn new(
        call: LockCall<'a>,
        missing: &[Missing<'a>],
        claim: Claim,
        within: Option<&'a Hold>,
    ) -> Self {
        let places = missing.iter().map(|(part, _)| (&part.core, &part.key));
        let groups = group(places, |_, at| {
            call.parts.needed == Needed::All && missing[at].0.kind.is_joinable
        });
        let unit = |members: List<usize>| Unit {
            terms: missing[members[0]].1,
            parts: members.into_iter().map(|at| missing[at].0).collect(),
            granted: None,
            is_unanswered: false,
        };
        let units: List<Unit<'a>> = groups.into_iter().map(unit).collect();
        let first = units[0].parts[0];
        // A script enters the lines of one slot. A thread that has the lock does not wait for other
        // clients.
        let is_small = units.len() == 1 && missing.len() <= LINES;
        let has_line = is_small && first.kind.has_line && within.is_none();
        Self {
            place: has_line.then(|| first.core.place(&first.key)),
            call,
            wait: Wait::new(call.budget, polls()),
            units,
            claim,
            pause: None,
            kept_until: None,
            expected_holds: 1,
            waiting: None,
            prepared: None,
            leaves_reserved: false,
            polls: Polls::default(),
            within,
            is_known_to_wait: false,
            is_logged: false,
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
        if let Ok(true) = is_granted {
            return Ok(Some(self.keep()));
        }
        self.undo();
        self.give_up();
        is_granted.map(|_| None)
    }

    /// Begins the holds of what is granted.
    pub(super) fn keep(self) -> List<HeldPart> {
        if let Some(pause) = self.pause.filter(|pause| !pause.is_in_line) {
            self.claim.end_pause(&pause);
        }
        let granted = self.units.into_iter().flat_map(|unit: Unit<'a>| {
            let parts = unit.parts.into_iter();
            parts.filter_map(move |part| Some((part, unit.granted.clone()?)))
        });
        keep(self.call, self.claim, granted)
    }

    /// Releases what is granted. What gets no reply is released in the background.
    pub(super) fn undo(&mut self) {
        let LockCall { core, budget, .. } = self.call;
        match self.call.parts.needed {
            Needed::All => self.undo_within(&budget.remaining(core.command_timeout)),
            Needed::Majority(_) => self.undo_within(budget),
        }
    }

    /// As [`undo`](Self::undo), within this time.
    pub(super) fn undo_within(&mut self, budget: &CallBudget) {
        self.kept_until = None;
        if let Some((owner, prepared)) = self.prepared.take() {
            let unit = &self.units[0];
            undo_lost_copies(&unit.parts, &owner, unit.terms, prepared.abandon());
            self.is_known_to_wait = true;
        }
        let mut unused: List<GrantRequest<'_>> = List::new();
        let mut ends = Moment::ZERO;
        for unit in &mut self.units {
            if let Some(grant) = unit.granted.take() {
                ends = ends.max(end_of(unit.terms));
                let release = |part: &&'a Part| {
                    let Part { core, key, .. } = part;
                    let call = part.kind.release(key, &grant.owner);
                    GrantRequest { core, key, call }
                };
                unused.extend(unit.parts.iter().map(release));
            }
        }
        if !unused.is_empty() {
            let needed = match self.call.parts.needed {
                Needed::All => Needed::All,
                // Each server gets one request.
                Needed::Majority(_) => Needed::Majority(unused.len()),
            };
            release_unused(&unused, ends, needed, budget);
        }
    }

    /// Tells Redis that this client does not wait any more. Before the tickets are passed on, so
    /// that it cannot affect the wait of the next thread, which makes itself known again.
    ///
    /// Each server gets one request, and all of them take at most
    /// [`GRACE`](crate::base::call_budget::GRACE). None is repeated: all waits of the client have
    /// the same place, and a late copy could end a later wait. A server that did not reply to the
    /// last request gets one in the background.
    fn give_up(&self) {
        if !self.is_known_to_wait {
            // Its last request has left the line.
            if self.call.budget.take_message() {
                self.leave_if_called(&self.units[0]);
            }
            return;
        }
        let mut requests = List::new();
        for unit in &self.units {
            if unit.is_unanswered {
                self.leave_if_called(unit);
                continue;
            }
            for Part {
                core, key, kind, ..
            } in &unit.parts
            {
                let call = (kind.give_up)(key, &core.owner_prefix, self.place.as_deref());
                requests.extend(call.map(|call| Request::new(&core.redis, key, call)));
            }
        }
        if !requests.is_empty() {
            let budget = self.call.budget.to_give_up();
            // Unlike a request to all, one to a majority is not repeated.
            let once = Needed::Majority(requests.len());
            once.request(&requests, |_| true, |_| None, &budget);
        }
    }

    /// Leaves the line in the background, if this client was called and has not answered.
    fn leave_if_called(&self, unit: &Unit<'_>) {
        if let Some(place) = &self.place {
            for part in &unit.parts {
                part.core.leave_if_called(&part.key, place);
            }
        }
    }

    /// The error of a call whose grants all arrived after the end of their lease.
    pub(super) fn too_late_error(&self) -> Error {
        let Part { core, key, .. } = self.units[0].parts[0];
        let cause = "every reply arrived after the lease that it granted had ended";
        core.redis.unavailable(key, self.call.budget, cause.into())
    }
}

impl Unit<'_> {
    /// The call that acquires the unit for `owner`.
    pub(super) fn call(&self, owner: &OwnerId, wish: &Wish) -> Call {
        let keys: List<_> = self.parts.iter().map(|part| &part.key).collect();
        let kind = self.parts[0].kind;
        kind.acquire(&keys, owner, self.terms.millis, wish)
    }
}
