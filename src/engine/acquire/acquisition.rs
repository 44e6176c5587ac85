//! The state of one call that acquires the missing parts of a lock.

use std::sync::Arc;
use std::time::Duration;

use super::first::First;
use super::line::Polls;
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::OwnerId;
use crate::engine::group::group;
use crate::engine::held::Needed;
use crate::engine::parts::{LockCall, Missing, Part};
use crate::engine::undo::{Unused, end_of, release_unused, undo_lost_copies};
use crate::engine::wait::{Wait, polls};
use crate::error::Error;
use crate::lease::Terms;
use crate::local::{Claim, Granted, Hold, Pause};
use crate::protocol::Wish;
use crate::request::Prepared;
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
    /// The units that did not reply to the last requests. They are requested before the others.
    pub(super) silent: List<usize>,
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
    /// The reply to the [first request](super::first), until it is evaluated.
    pub(super) first: Option<First>,
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
        // A script enters the lines of one slot.
        let has_line = units.len() == 1 && missing.len() <= LINES && first.kind.has_line;
        Self {
            place: has_line.then(|| first.core.place(&first.key)),
            call,
            wait: Wait::new(call.budget, polls()),
            units,
            claim,
            pause: None,
            silent: List::new(),
            kept_until: None,
            expected_holds: 1,
            waiting: None,
            prepared: None,
            leaves_reserved: false,
            polls: Polls::default(),
            within: None,
            is_known_to_wait: false,
            is_logged: false,
            first: None,
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

    /// Releases what is granted. What gets no reply is released in the background.
    pub(super) fn undo(&mut self) {
        self.kept_until = None;
        if let Some((owner, prepared)) = self.prepared.take() {
            let unit = &self.units[0];
            undo_lost_copies(&unit.parts, &owner, unit.terms, prepared.abandon());
            self.is_known_to_wait = true;
        }
        let mut unused = Vec::new();
        let mut timeout = Duration::ZERO;
        for unit in &mut self.units {
            if let Some(grant) = unit.granted.take() {
                timeout = timeout.max(unit.parts[0].core.command_timeout);
                unused.push(Unused::new(&unit.parts, grant.owner, end_of(unit.terms)));
            }
        }
        let LockCall { parts, budget, .. } = self.call;
        match parts.needed {
            Needed::All => release_unused(unused, Needed::All, &budget.remaining(timeout)),
            needed => release_unused(unused, needed, budget),
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
