//! One round of requests for the missing parts of a lock: sent to all servers at once, and the
//! replies.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::acquisition::Acquisition;
use super::line::LONGEST;
use super::unit::{First, Unit, owner_of_next_copy};
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::OwnerId;
use crate::engine::held::Needed;
use crate::engine::local_wait::no_reply;
use crate::engine::parts::Part;
use crate::error::{Error, Result};
use crate::observe::tell;
use crate::protocol::AcquireReply;
use crate::request::{NoReply, Reply, Request, request_batch};
use crate::script::granted;

/// What is left of the lease of a lock without an expiry: it can be deleted without a message.
const UNKNOWN_LEASE: Duration = Duration::from_secs(1);

/// Logged once for each client.
const NO_LINE: &str = "Redis refuses the line of a lock, so each release wakes all waiting \
     clients; if the user lacks permissions, allow the keys leasehold_line:* and the commands \
     ZADD, ZCOUNT, ZRANGE, ZRANGEBYSCORE, ZRANK, ZREM and ZSCORE";

/// Logged once for each wait.
const NO_PERMITS: &str = "a thread waits for a permit, but the semaphore has no permits, \
     available or leased; set their number (set_permits): it was never set, or the key of the \
     leases was lost";

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
    /// For how long the lock is reserved for clients that were called and have not answered.
    pub(super) pending: Option<Duration>,
    /// A moment before the request was sent.
    pub(super) asked: Moment,
    /// Redis still has what it granted to this call too late.
    pub(super) is_own: bool,
    /// The owner is this client: no thread has the lock, and it may be about to be released.
    pub(super) is_of_client: bool,
}

impl<'a> Acquisition<'a> {
    /// Begins a round of requests. Returns when the replies must have arrived. Fails if there was
    /// no reply for too long.
    pub(super) fn begin_round(&mut self) -> Result<Moment> {
        let (since, expected_holds) = self.claim.begin_request();
        self.expected_holds = expected_holds;
        let budget = self.call.budget;
        // Within its own hold, the thread waits only for replies.
        let since = self.within.map_or(since, |_| budget.started());
        budget.set_unanswered_since(Some(since));
        let deadline = budget.reply_deadline();
        match deadline.is_past() {
            true => Err(no_reply(self.call, self.claim.locks())),
            false => Ok(deadline),
        }
    }

    /// Notes that Redis has replied: a sleep that follows is no time without a reply.
    pub(super) fn replied(&self) {
        self.claim.replied();
        self.call.budget.set_unanswered_since(None);
    }

    /// True if the wait is over, but this client has the lock in Redis only until a release that
    /// the watchdog sends: of an idle grant, or one that had no reply. Then the thread asks again.
    pub(super) fn awaits_own_release(&mut self, held: &HeldByOther<'a>) -> bool {
        let Part { core, key, .. } = held.part;
        if !held.is_of_client || self.call.budget.call_deadline().is_past() {
            return false;
        }
        let is_releasing = core.watchdog.is_releasing(key);
        // The release may have ended since the refusal, or is about to be queued.
        is_releasing || !std::mem::replace(&mut self.has_asked_again, true)
    }

    /// Requests the units that are not granted yet.
    pub(super) fn request(&mut self) -> Replies<'a> {
        let (budget, needed) = (self.call.budget, self.call.parts.needed);
        let waits = !budget.is_wait_over() || self.leaves_place();
        let wish = self.wish(waits);
        self.is_known_to_wait |= wish.waits;
        if self.place.is_some() {
            // This request answers the calls so far.
            budget.take_message();
        }
        if budget.is_wait_over() {
            // The one that was prepared would enter the line.
            self.prepared.take_if(|(_, request)| request.cancel());
        }
        let (owner, prepared) = self.prepared.take().unzip();
        let mut requested = self.requested(owner);
        let units = &self.units;
        let request =
            |(at, owner): &(usize, OwnerId)| units[*at].request(owner, &wish, prepared.as_deref());
        let requests: List<Request<'_>> = requested.iter().map(request).collect();
        let next_call = |index: usize| {
            let (at, owner) = &mut requested[index];
            *owner = owner_of_next_copy(owner);
            Some(units[*at].call(owner, &wish))
        };
        let core = &units[0].parts[0].core;
        let results = match needed {
            // A server that does not reply must not keep the locks of the others from other
            // clients.
            Needed::All if units.len() > 1 => {
                let briefly = Moment::now().after(core.command_timeout);
                let deadline = briefly.min(budget.reply_deadline());
                request_batch(&requests, next_call, deadline, budget)
            }
            needed => {
                let is_good = |reply: &_| granted(reply).is_some();
                needed.request(&requests, is_good, next_call, budget)
            }
        };
        drop(requests);
        if prepared.is_some_and(|prepared| prepared.is_outdated()) {
            // The wake-up of that message has been taken. If the lock is refused, another request
            // follows at once.
            budget.unparker().unpark();
        }
        let mut replies = Replies::default();
        for ((at, owner), result) in requested.into_iter().zip(results) {
            self.evaluate(at, &owner, result, &mut replies);
        }
        self.count_hold(&replies);
        replies
    }

    /// After a round: counts a hold of another client for the pause.
    fn count_hold(&mut self, replies: &Replies<'_>) {
        let (Some(mut pause), Some(held)) = (self.pause, replies.held.last()) else {
            return;
        };
        if held.is_foreign || !pause.is_in_line {
            pause.pass();
        }
        let rank = held.rank.unwrap_or_default();
        self.pause = pause.enter_line(rank, fastrand::f32());
    }

    /// Evaluates the first request for a lock of one part.
    pub(super) fn replies_to(&mut self, first: First) -> Replies<'a> {
        self.is_known_to_wait |= first.waits;
        let mut replies = Replies::default();
        self.evaluate(0, &first.owner, first.result, &mut replies);
        replies
    }

    /// The units that are not granted yet, each with an owner id: this one, or a new one. If some
    /// of all did not reply to the last round, these alone: meanwhile the locks of the others are
    /// free.
    fn requested(&self, mut owner: Option<OwnerId>) -> List<(usize, OwnerId)> {
        let is_all = self.call.parts.needed == Needed::All;
        let waits_for_replies = is_all && self.units.iter().any(|unit| unit.is_unanswered);
        let units = self.units.iter().enumerate();
        let requested = units.filter(|(_, unit)| match waits_for_replies {
            true => unit.is_unanswered,
            false => unit.granted.is_none(),
        });
        let mut owner = |unit: &Unit<'_>| owner.take().unwrap_or_else(|| unit.parts[0].new_owner());
        requested.map(|(at, unit)| (at, owner(unit))).collect()
    }

    /// Evaluates the reply to a request whose last copy was sent for `owner`.
    fn evaluate(
        &mut self,
        at: usize,
        owner: &OwnerId,
        result: Result<Reply, NoReply>,
        replies: &mut Replies<'a>,
    ) {
        let is_unanswered = result.as_ref().is_err_and(may_arrive_later);
        let has_lost_copies = |reply: &Reply| reply.lost_copies.is_ambiguous();
        if is_unanswered || result.as_ref().is_ok_and(has_lost_copies) {
            self.expect_calls(at);
        }
        let unit = &mut self.units[at];
        unit.is_unanswered = is_unanswered;
        let Part { core, key, .. } = unit.parts[0];
        let reply = match result {
            Ok(reply) => reply,
            Err(NoReply { error, lost_copies }) => {
                unit.undo_lost_copies(owner, lost_copies);
                return replies.failures.push(error);
            }
        };
        match AcquireReply::of(&reply.reply) {
            Ok(AcquireReply::Granted(tokens)) => {
                if reply.unreplicated.is_some() {
                    core.observer.counters.unreplicated.add(1);
                    replies.unreplicated = reply.unreplicated;
                }
                replies.is_too_late |= !self.granted_to(at, owner, tokens, reply);
            }
            Ok(held) => {
                unit.undo_lost_copies(owner, reply.lost_copies);
                replies.held.extend(self.refused(at, held, reply.asked));
            }
            Err(error) => {
                unit.undo(owner, reply.lost_copies);
                replies.failures.push(core.redis.refusal(key, error));
            }
        }
    }

    /// Evaluates a reply that refuses a unit, because another owner holds one of its parts.
    fn refused(
        &mut self,
        unit: usize,
        held: AcquireReply,
        asked: Moment,
    ) -> Option<HeldByOther<'a>> {
        let AcquireReply::Held {
            at,
            millis,
            owner: holder,
            rank,
            listens,
        } = held
        else {
            return None;
        };
        let parts = &self.units[unit].parts;
        if parts.len() > 1 {
            // The thread listens for calls of one of them.
            self.expect_calls(unit);
        }
        let part = parts[at.min(parts.len() - 1)];
        let is_reserved = part.kind.is_exclusive && holder.is_empty() && rank > Some(0);
        let has_no_owner = millis.is_none() && !part.kind.is_exclusive;
        // Of several locks, another one may be reserved for this client for that time.
        let left = match millis {
            _ if is_reserved && parts.len() == 1 => LONGEST,
            Some(millis) => Duration::from_millis(millis),
            None if has_no_owner => LONGEST,
            None => UNKNOWN_LEASE,
        };
        // The client that was called may not answer.
        let reserved_for = millis.filter(|_| is_reserved);
        self.note_line(part, rank, has_no_owner);
        let is_of_client = holder.starts_with(&*part.core.owner_prefix);
        let (is_foreign, is_own) = self.note_holder(part, holder);
        // A client of Redisson does not call the line. So the first two clients listen to its
        // release.
        let is_near = is_foreign && matches!(rank, Some(0 | 1));
        Some(HeldByOther {
            unit,
            part,
            left,
            rank,
            is_foreign,
            listens: is_near || listens,
            pending: reserved_for.map(Duration::from_millis),
            asked,
            is_own,
            is_of_client,
        })
    }

    /// The client may be called in the lines of these parts, although no thread listens for that.
    fn expect_calls(&self, unit: usize) {
        if let Some(place) = &self.place {
            let parts = self.units[unit].parts.iter();
            parts.for_each(|part| part.core.subscriber.expect_call(&part.key, place));
        }
    }

    /// Notes the owner that has a lock. Returns whether it is a client of Redisson, and whether it
    /// is that of a grant to this call which was too late.
    fn note_holder(&self, part: &Part, holder: String) -> (bool, bool) {
        let is_foreign = !holder.is_empty() && !OwnerId::is_of_this_library(&holder);
        let is_own = self.late.as_ref().map(OwnerId::as_str) == Some(&holder);
        if is_foreign {
            self.claim.refused_by(&part.id, holder.clone());
        }
        self.call.budget.note_holder(holder);
        (is_foreign, is_own)
    }

    /// Notes whether the client is in the line now, and logs why no release may end the wait.
    fn note_line(&mut self, part: &Part, rank: Option<u32>, has_no_owner: bool) {
        let waits = !self.call.budget.is_wait_over();
        if self.place.is_some() {
            self.is_known_to_wait = rank.is_some();
            let logged = &part.core.logged_no_line;
            if rank.is_none() && waits && !logged.swap(true, Ordering::Relaxed) {
                log(part, NO_LINE);
            }
        }
        if waits && has_no_owner && !std::mem::replace(&mut self.is_logged, true) {
            log(part, NO_PERMITS);
        }
    }

    /// Notes that a unit is granted. False if its lease was over before the reply arrived.
    fn granted_to(&mut self, at: usize, owner: &OwnerId, tokens: Range<u64>, reply: Reply) -> bool {
        let unit = &mut self.units[at];
        let (owner, older) = owner.split();
        if let Some(older) = older {
            unit.compensate(&older, &reply.lost_copies);
        }
        let grant = unit.grant(owner, tokens, (&reply.reply, reply.asked), self.waiting);
        let is_late = grant.is_over(grant.replied);
        if is_late {
            // It may have expired in Redis.
            unit.release_later(&grant.owner);
            self.late = Some(grant.owner);
        } else {
            self.is_known_to_wait &= self.place.is_none();
            unit.granted = Some(grant);
        }
        !is_late
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

/// Logs why no release may end the wait of a thread.
fn log(lock: &Part, reason: &'static str) {
    let (name, node) = (lock.key.shared_name(), lock.node());
    tell(move || tracing::warn!(lock = &*name, node = &*node, "{reason}"));
}
