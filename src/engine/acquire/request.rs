//! The requests for the missing parts of a lock: sent to all servers at once, and evaluated.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::observed::log_that_there_are_none;
use super::rival::Rival;
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::OwnerId;
use crate::engine::group::group;
use crate::engine::held::Needed;
use crate::engine::parts::{LockCall, Missing, Part};
use crate::engine::undo::{
    Unused, end_of, owner_of_grant, owner_of_next_copy, release_orphans, release_unused,
    undo_lost_copies, undo_unclear_grant,
};
use crate::engine::wait::{Wait, polls};
use crate::error::{Error, Result};
use crate::lease::{Renewals, Terms, drift};
use crate::local::{Claim, Granted, Hold};
use crate::protocol::{AcquireReply, Wish};
use crate::request::{self, NoReply, Prepared, Reply, request_batch};
use crate::script::Call;

/// What is left of the lease of a lock without an expiry: it can be deleted without a message.
const UNKNOWN_LEASE: Duration = Duration::from_secs(1);

/// One call that acquires the missing parts of a lock.
pub(super) struct Acquisition<'a> {
    pub(super) call: LockCall<'a>,
    pub(super) units: List<Unit<'a>>,
    pub(super) claim: Claim,
    pub(super) wait: Wait<'a>,
    /// Set until the first reply, if the thread left the lock to other clients before its first
    /// request: whether it heard a release.
    pub(super) pause: Option<bool>,
    /// How long this thread waits after the next release before it requests the lock. Set if this
    /// client has released the lock while several other clients listened.
    pub(super) after_release: Option<Duration>,
    /// The units that did not reply to the last requests. They are requested before the others.
    pub(super) silent: List<usize>,
    /// The number of holds that are expected to share the grant.
    pub(super) expected_holds: usize,
    pub(super) rival: Rival,
    /// The next request, which the subscriber thread may have sent already, and its owner id.
    pub(super) prepared: Option<(OwnerId, Arc<Prepared>)>,
    /// Until when granted parts are kept while this thread waits for the others.
    pub(super) kept_until: Option<Moment>,
    /// The exclusive hold of this thread, if it acquires a shared one of the same lock.
    pub(super) within: Option<&'a Hold>,
    /// Redis may know that this client waits.
    pub(super) is_known_to_wait: bool,
    /// The log says that no release can end this wait.
    is_logged: bool,
    /// The owner of the last grant that had ended when its reply arrived.
    late: Option<OwnerId>,
}

/// The parts that share one request, which grants all of them or none.
pub(super) struct Unit<'a> {
    pub(super) parts: List<&'a Part>,
    pub(super) terms: Terms,
    pub(super) granted: Option<Granted>,
    /// The names of the requests by which Redis may know that this thread waits.
    pub(super) waits_as: Option<OwnerId>,
    /// The last request had no reply.
    pub(super) is_unanswered: bool,
}

/// True if the lease of a grant is over.
fn is_over(granted: &Granted, now: Moment) -> bool {
    let lease = Duration::from_millis(granted.terms.millis);
    granted.asked.after(lease - drift(lease)) <= now
}

/// A lock that another owner holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldByOther {
    pub(super) unit: usize,
    /// The index of the part in its unit.
    pub(super) part: usize,
    /// What is left of the lease.
    pub(super) left: Duration,
    /// Redis still has what it granted to this call too late.
    pub(super) is_own: bool,
}

/// The replies of all servers to one round of requests.
#[derive(Default)]
pub(super) struct Replies<'a> {
    pub(super) held: Vec<HeldByOther>,
    pub(super) failures: Vec<Error>,
    /// The units without a reply.
    pub(super) silent: List<usize>,
    /// Set if too few replicas confirmed a grant: how many did.
    pub(super) unreplicated: Option<u32>,
    /// The grants that too few replicas confirmed. They are to be released.
    pub(super) unused: Vec<Unused<'a>>,
    /// A grant had ended when its reply arrived.
    pub(super) is_too_late: bool,
}

impl<'a> Acquisition<'a> {
    pub(super) fn new(call: LockCall<'a>, missing: &[Missing<'a>], claim: Claim) -> Self {
        let places = missing.iter().map(|(part, _)| (&part.core, &part.key));
        let groups = group(places, |_, at| {
            call.parts.needed == Needed::All && missing[at].0.protocol.is_joinable()
        });
        let unit = |members: List<usize>| Unit {
            terms: missing[members[0]].1,
            parts: members.into_iter().map(|at| missing[at].0).collect(),
            granted: None,
            waits_as: None,
            is_unanswered: false,
        };
        let units = groups.into_iter().map(unit).collect();
        Self {
            call,
            wait: Wait::new(call.budget, polls()),
            units,
            claim,
            pause: None,
            after_release: None,
            silent: List::new(),
            kept_until: None,
            expected_holds: 1,
            prepared: None,
            rival: Rival::default(),
            within: None,
            is_known_to_wait: false,
            is_logged: false,
            late: None,
        }
    }

    /// The number of units that must be granted.
    pub(super) fn needed(&self) -> usize {
        self.call.parts.needed.of(self.units.len())
    }

    /// Requests the units that are not granted yet. If some did not reply before, these alone.
    pub(super) fn request(&mut self) -> Replies<'a> {
        let mut requested = std::mem::take(&mut self.silent);
        if requested.is_empty() {
            let missing = |&at: &usize| self.units[at].granted.is_none();
            requested = (0..self.units.len()).filter(missing).collect();
        }
        let owner = |&at: &usize| self.units[at].parts[0].new_owner();
        let (owners, prepared) = self.prepared.take().unzip();
        let mut owners: List<OwnerId> = match owners {
            Some(prepared) => List::from([prepared]),
            None => requested.iter().map(owner).collect(),
        };
        let results = self.send(&requested, &mut owners, prepared.as_deref());
        if prepared.is_some_and(|prepared| prepared.is_outdated()) {
            // The wake-up of that message has been taken. If the lock is refused, another request
            // follows at once.
            self.call.budget.unparker().unpark();
        }
        let mut replies = Replies::default();
        for ((at, owner), result) in requested.into_iter().zip(owners).zip(results) {
            self.evaluate(at, owner, result, &mut replies);
        }
        self.end_pause(&replies);
        replies
    }

    /// Sends the requests for these units. Replaces the owner id of each by that of the last copy
    /// that was sent.
    fn send(
        &mut self,
        requested: &[usize],
        owners: &mut [OwnerId],
        prepared: Option<&Prepared>,
    ) -> List<Result<Reply, NoReply>> {
        let wish = self.wish(!self.call.budget.is_wait_over());
        self.is_known_to_wait |= wish.waits;
        let (units, budget) = (&self.units, self.call.budget);
        let request = |(&at, owner): (&usize, &OwnerId)| {
            let unit = &units[at];
            let first = unit.parts[0];
            let call = match prepared {
                Some(prepared) => prepared.call().clone(),
                None => unit.call(owner, &wish),
            };
            request::Request {
                others: unit.parts[1..].iter().map(|part| &part.key).collect(),
                prepared,
                ..request::Request::new(&first.core.redis, &first.key, call)
            }
        };
        let requests: List<request::Request<'_>> =
            requested.iter().zip(&*owners).map(request).collect();
        let next_call = |index: usize| {
            owners[index] = owner_of_next_copy(&owners[index]);
            Some(units[requested[index]].call(&owners[index], &wish))
        };
        let first = units[0].parts[0];
        match self.call.parts.needed {
            // A server that does not reply must not keep the locks of the others from other
            // clients.
            Needed::All if units.len() > 1 => {
                let briefly = Moment::now().after(first.core.command_timeout);
                let deadline = briefly.min(budget.reply_deadline());
                request_batch(&requests, next_call, deadline, budget)
            }
            needed => needed.request(&requests, first.protocol.grants(), next_call, budget),
        }
    }

    /// What the next request is for. The thread `waits` if the lock is held.
    pub(super) fn wish(&self, waits: bool) -> Wish {
        Wish {
            holds: self.holds_of_a_grant(),
            waits,
            within: self.within.map(|hold| hold.grant().owner().clone()),
        }
    }

    /// The number of holds that may share the grant. A fixed lease is not handed over, and a client
    /// that lingers wants its next hold, too.
    pub(super) fn holds_of_a_grant(&self) -> usize {
        let first = &self.units[0];
        if first.terms.renewals == Renewals::None {
            return 1;
        }
        let lingers = first.parts[0].core.linger > Duration::ZERO;
        self.expected_holds + usize::from(lingers)
    }

    /// Evaluates the reply to a request whose last copy was sent for `owner`.
    fn evaluate(
        &mut self,
        at: usize,
        owner: OwnerId,
        result: Result<Reply, NoReply>,
        replies: &mut Replies<'a>,
    ) {
        let unit = &mut self.units[at];
        unit.is_unanswered = result.as_ref().is_err_and(may_arrive_later);
        let (parts, terms) = (&unit.parts, unit.terms);
        let reply = match result {
            Ok(reply) => reply,
            Err(NoReply { error, lost_copies }) => {
                undo_lost_copies(parts, &owner, terms, lost_copies);
                replies.failures.push(error);
                replies.silent.push(at);
                unit.may_wait_as(&owner);
                return;
            }
        };
        match parts[0].protocol.acquired(&reply.reply) {
            Ok(AcquireReply::Held {
                at: part,
                millis,
                owner: holder,
            }) => {
                self.note_holder(at, &holder, &reply.reply);
                let unit = &mut self.units[at];
                undo_lost_copies(&unit.parts, &owner, terms, reply.lost_copies);
                unit.may_wait_as(&owner);
                replies.held.push(HeldByOther {
                    unit: at,
                    part: part.min(unit.parts.len() - 1),
                    left: millis.map_or(UNKNOWN_LEASE, Duration::from_millis),
                    is_own: self.late.as_ref().map(OwnerId::as_str) == Some(&holder),
                });
                self.call.budget.note_holder(holder);
            }
            Ok(AcquireReply::Granted(_)) if reply.unreplicated.is_some() => {
                parts[0].core.observer.counters.unreplicated.add(1);
                replies.unreplicated = reply.unreplicated;
                let unused = Unused::new(parts, owner, end_of(terms));
                replies
                    .unused
                    .push(unused.with_lost_copies(reply.lost_copies));
            }
            Ok(AcquireReply::Granted(tokens)) => {
                self.note_grant(at, &owner, tokens, reply, replies);
            }
            Err(error) => {
                undo_unclear_grant(parts, &owner, terms, reply.lost_copies);
                let refusal = parts[0].core.redis.refusal(&parts[0].key, error);
                replies.failures.push(refusal);
            }
        }
    }

    /// Notes which owner holds a lock of this unit.
    fn note_holder(&mut self, at: usize, holder: &str, reply: &Value) {
        let part = self.units[at].parts[0];
        if part.protocol.is_exclusive() {
            self.rival.holds(holder);
        }
        if part.protocol.has_no_owner(reply)
            && !self.call.budget.is_wait_over()
            && !std::mem::replace(&mut self.is_logged, true)
        {
            log_that_there_are_none(part);
        }
    }

    /// Notes that a unit is granted, if its lease is not over.
    fn note_grant(
        &mut self,
        at: usize,
        owner: &OwnerId,
        tokens: Range<u64>,
        reply: Reply,
        replies: &mut Replies<'a>,
    ) {
        let unit = &mut self.units[at];
        let (parts, terms) = (&unit.parts, unit.terms);
        let grant = Granted {
            others_wait: parts[0].protocol.others_wait(&reply.reply),
            owner: owner_of_grant(parts, owner, reply.lost_copies),
            asked: reply.asked,
            replied: Moment::now(),
            terms,
            tokens,
        };
        if is_over(&grant, grant.replied) {
            // The reply took longer than the lease, so it may have expired in Redis.
            release_orphans(parts, &grant.owner, end_of(terms));
            replies.is_too_late = true;
            self.late = Some(grant.owner);
        } else {
            unit.granted = Some(grant);
        }
    }

    /// The units that are granted, and whose leases have not ended.
    pub(super) fn granted(&self) -> impl Iterator<Item = usize> {
        let now = Moment::now();
        let is_granted = move |unit: &Unit<'_>| {
            let granted = unit.granted.as_ref();
            granted.is_some_and(|granted| !is_over(granted, now))
        };
        let units = self.units.iter().enumerate();
        let granted = units.filter(move |(_, unit)| is_granted(unit));
        granted.map(|(at, _)| at)
    }

    /// Releases what is granted. What gets no reply is released in the background.
    pub(super) fn undo(&mut self) {
        self.kept_until = None;
        if let Some((owner, prepared)) = self.prepared.take() {
            let unit = &mut self.units[0];
            undo_lost_copies(&unit.parts, &owner, unit.terms, prepared.abandon());
            unit.may_wait_as(&owner);
        }
        let mut unused = Vec::new();
        let mut timeout = Duration::ZERO;
        for unit in &mut self.units {
            if let Some(grant) = unit.granted.take() {
                timeout = timeout.max(unit.parts[0].core.command_timeout);
                unused.push(Unused::new(&unit.parts, grant.owner, end_of(unit.terms)));
            }
        }
        let needed = self.call.parts.needed;
        match needed {
            Needed::All => release_unused(unused, needed, &self.call.budget.remaining(timeout)),
            Needed::Majority(_) => release_unused(unused, needed, self.call.budget),
        }
    }

    pub(super) fn part(&self, held: HeldByOther) -> &'a Part {
        self.units[held.unit].parts[held.part]
    }

    /// The error of a call whose grants all arrived after the end of their lease.
    pub(super) fn too_late_error(&self) -> Error {
        let first = self.units[0].parts[0];
        let cause = "every reply arrived after the lease that it granted had ended";
        first
            .core
            .redis
            .unavailable(&first.key, self.call.budget, cause.into())
    }
}

impl Unit<'_> {
    /// The call that acquires the unit for `owner`.
    pub(super) fn call(&self, owner: &OwnerId, wish: &Wish) -> Call {
        let keys: List<_> = self.parts.iter().map(|part| &part.key).collect();
        let protocol = self.parts[0].protocol;
        protocol.acquire(&keys, owner, self.terms.millis, wish)
    }
}

/// True if Redis may execute a copy of the request later.
fn may_arrive_later(none: &NoReply) -> bool {
    none.lost_copies.is_ambiguous()
        || matches!(
            none.error,
            Error::Unavailable { .. } | Error::Interrupted { .. } | Error::ShutDown { .. }
        )
}
