//! Acquires one lock: enters the local queue, sends a request, waits for a release, tries again.

use std::sync::Arc;
use std::time::Duration;

use super::handle::{Handle, LockKind};
use super::hold_requests;
use super::parts::HeldPart;
use super::ticket::{check_reply_deadline, wait_for_ticket};
use crate::base::backoff::Backoff;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::owner::{self, OwnerId, ThreadId};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lease::{Lease, Terms};
use crate::local::{Grant, Hold, QueueEntry, Ticket};
use crate::request::{LostCopies, NoReply, Reply, Request, request_batch};
use crate::script::{self, AcquireReply, Call};

/// Pauses between requests while no subscription can announce a release.
const FIRST_POLL: Duration = Duration::from_millis(20);
const LONGEST_POLL: Duration = Duration::from_secs(1);

/// A request looks for a grant to at most this many earlier copies without a reply. A lock that an
/// even older copy acquired ends with its lease.
const MAX_OLDER_IDS: usize = 7;

/// Acquires a lock, or a further level of it; `None` if the budget ends first.
pub(super) fn acquire(
    handle: &Handle,
    lease: Lease,
    budget: &CallBudget,
) -> Result<Option<HeldPart>> {
    let Handle { core, key, kind } = handle;
    core.check_process(key.name())?;
    key.check()?;
    let terms = lease.terms(core.watchdog_lease)?;
    budget.check_interrupt(key.name())?;
    let thread = ThreadId::current();
    let ticket = match core.queue.enter(key.key(), thread) {
        QueueEntry::Held(hold) => return reenter(core, hold, *kind, terms, budget).map(Some),
        QueueEntry::Front(ticket) => ticket,
        QueueEntry::Queued => {
            let parts = std::slice::from_ref(handle);
            match wait_for_ticket(handle, parts, budget, Moment::now())? {
                Some(ticket) => ticket,
                None => return Ok(None),
            }
        }
    };
    acquire_with_ticket(handle, ticket, terms, budget)
}

/// Requests the lock from Redis until it is granted or the budget ends. If this returns without the
/// lock, it drops `ticket`, so that the next waiting thread of this process gets it.
pub(super) fn acquire_with_ticket(
    handle: &Handle,
    ticket: Ticket,
    terms: Terms,
    budget: &CallBudget,
) -> Result<Option<HeldPart>> {
    let Handle { core, key, .. } = handle;
    // With a subscription before the first request, no second request is needed after subscribing.
    let mut listener = core.subscriber.listen_if_live(key, || budget.unparker());
    let mut polls = Backoff::new(FIRST_POLL, LONGEST_POLL);
    loop {
        let unanswered = Some(ticket.begin_request());
        budget.set_unanswered_since(unanswered);
        check_reply_deadline(core, key, unanswered, budget)?;
        let outcome = acquire_once(handle, terms, budget);
        // An error says nothing about who holds the lock: the next thread sends its own request.
        if matches!(
            outcome,
            Ok(AcquireOutcome::Acquired(_) | AcquireOutcome::HeldByOther(_))
        ) {
            ticket.replied();
        }
        let left = match outcome? {
            AcquireOutcome::Acquired(hold) => {
                return Ok(Some(start_hold(core, ticket, hold, budget)));
            }
            AcquireOutcome::HeldByOther(left) => left + core.wait_jitter(),
            AcquireOutcome::Unreplicated(unused, confirmed) => {
                let briefly = budget.for_cleanup(core.command_timeout);
                release_unused(core, vec![unused], &briefly);
                if budget.is_wait_over() || budget.reply_deadline().is_past() {
                    return Err(core.redis.too_few_replicas(key, confirmed));
                }
                ticket.unreplicated(confirmed);
                // No other client holds the lock, and the release above would wake a listener.
                listener = None;
                budget.wait(polls.next().min(budget.reply_deadline().left()));
                budget.check_interrupt(key.name())?;
                continue;
            }
            AcquireOutcome::TooLate => {
                if budget.is_wait_over() || budget.reply_deadline().is_past() {
                    return Err(too_late_error(core, key, budget));
                }
                Duration::ZERO
            }
        };
        if budget.is_wait_over() {
            return Ok(None);
        }
        drop(listener.take_if(|listener| !core.subscriber.is_in_place(listener, key)));
        let listener = listener.get_or_insert_with(|| {
            core.subscriber
                .listen(key, budget.unparker(), budget.wait_left())
        });
        // Without a confirmed subscription, only the next request notices a release.
        let poll = polls.next();
        let pause = if listener.is_live() {
            left
        } else {
            left.min(poll)
        };
        if budget.wait(pause) {
            core.observer.counters.wakeups_by_message.add(1);
        } else {
            core.observer.counters.wakeups_by_timeout.add(1);
        }
        budget.check_interrupt(key.name())?;
    }
}

/// The error of a call whose grants all arrived after the end of their lease.
pub(super) fn too_late_error(core: &Core, key: &LockKey, budget: &CallBudget) -> Error {
    let cause = "every reply arrived after the lease that it granted had ended";
    core.redis.unavailable(key, budget, cause.into())
}

/// Registers a new hold: its thread keeps the ticket, and the watchdog renews the lease.
pub(super) fn start_hold(
    core: &Arc<Core>,
    ticket: Ticket,
    hold: Arc<Hold>,
    budget: &CallBudget,
) -> HeldPart {
    ticket.keep(Arc::clone(&hold));
    core.watchdog.watch(hold.id(), Arc::clone(&hold) as _);
    core.observer.counters.acquisitions.add(1);
    core.observer.counters.waited(budget.elapsed());
    HeldPart {
        core: Arc::clone(core),
        hold,
        level: Hold::FIRST_LEVEL,
    }
}

/// The result of one request for the lock.
pub(super) enum AcquireOutcome {
    Acquired(Arc<Hold>),
    /// Another owner holds the lock, with this much of its lease left.
    HeldByOther(Duration),
    /// Redis granted the lock, but the lease had ended when the reply arrived.
    TooLate,
    /// Redis granted the lock, but only this many replicas confirmed it, which is too few. The
    /// caller releases it.
    Unreplicated(UnusedGrant, u32),
}

/// A grant that no thread uses. It has to be released.
pub(super) struct UnusedGrant {
    key: LockKey,
    owner: OwnerId,
    terms: Terms,
    /// Copies of the request that Redis may still execute.
    lost_copies: LostCopies,
}

impl UnusedGrant {
    /// The grant of a hold that was never registered.
    pub(super) fn new(hold: &Hold, terms: Terms) -> Self {
        Self {
            key: hold.key().clone(),
            owner: hold.owner(),
            terms,
            lost_copies: LostCopies::default(),
        }
    }
}

/// Sends one request for the lock, with further copies until there is a reply.
fn acquire_once(handle: &Handle, terms: Terms, budget: &CallBudget) -> Result<AcquireOutcome> {
    let Handle { core, key, .. } = handle;
    let mut owner = OwnerId::current(&core.id);
    let first = acquire_call(handle, &owner, terms);
    let next_copy = || {
        owner = owner_of_next_copy(&owner);
        Some(acquire_call(handle, &owner, terms))
    };
    let result = core.redis.request_with_retry(key, first, next_copy, budget);
    outcome_of(handle, owner, terms, result)
}

/// The script call that acquires the lock for `owner`.
pub(super) fn acquire_call(handle: &Handle, owner: &OwnerId, terms: Terms) -> Call {
    match handle.kind {
        LockKind::Plain => script::acquire(&handle.key, owner, terms.millis),
        LockKind::Fenced => script::acquire_fenced(&handle.key, owner, terms.millis),
    }
}

/// The owner id for another copy of a request. Each copy has its own: otherwise a late copy could
/// acquire the lock again after the hold was lost, with the owner id of that hold.
pub(super) fn owner_of_next_copy(owner: &OwnerId) -> OwnerId {
    owner.newest(MAX_OLDER_IDS).with_fresh_name()
}

/// The owner id of a lock that was granted to the last copy of a request. Undoes the older copies.
pub(super) fn owner_of_grant(key: &LockKey, owner: &OwnerId, lost_copies: LostCopies) -> OwnerId {
    let (owner, older) = owner.split();
    if let Some(older) = older {
        lost_copies.compensate(&script::release(key, &older));
    }
    owner
}

/// Undoes a request whose reply is not the expected one. Redis may have granted the lock.
pub(super) fn undo_unclear_grant(
    core: &Core,
    key: &LockKey,
    owner: OwnerId,
    terms: Terms,
    lost_copies: LostCopies,
) {
    owner::retire();
    lost_copies.compensate(&script::release(key, &owner));
    release_orphan(core, key, owner, terms);
}

/// Evaluates the reply to a request whose last copy was sent for `owner`.
pub(super) fn outcome_of(
    handle: &Handle,
    owner: OwnerId,
    terms: Terms,
    result: Result<Reply, NoReply>,
) -> Result<AcquireOutcome> {
    let Handle { core, key, kind } = handle;
    let reply = match result {
        Ok(reply) => reply,
        Err(no_reply) => {
            undo_lost_copies(core, key, owner, terms, no_reply.lost_copies);
            return Err(no_reply.error);
        }
    };
    let attempt = match kind {
        LockKind::Plain => script::acquire_reply(&reply.reply),
        LockKind::Fenced => script::fenced_acquire_reply(&reply.reply),
    };
    let attempt = match attempt {
        Ok(attempt) => attempt,
        Err(error) => {
            undo_unclear_grant(core, key, owner, terms, reply.lost_copies);
            return Err(core.redis.refusal(key, error));
        }
    };
    match attempt {
        AcquireReply::Held(millis) => {
            undo_lost_copies(core, key, owner, terms, reply.lost_copies);
            // A lock without an expiry can be deleted without a message.
            Ok(AcquireOutcome::HeldByOther(
                millis.map_or(LONGEST_POLL, Duration::from_millis),
            ))
        }
        AcquireReply::Taken(token) => {
            if let Some(confirmed) = reply.unreplicated {
                core.observer.counters.unreplicated.add(1);
                let unused = UnusedGrant {
                    key: key.clone(),
                    owner,
                    terms,
                    lost_copies: reply.lost_copies,
                };
                return Ok(AcquireOutcome::Unreplicated(unused, confirmed));
            }
            let owner = owner_of_grant(key, &owner, reply.lost_copies);
            let grant = Grant {
                owner,
                asked: reply.asked,
                terms,
                token,
            };
            let observer = Arc::clone(&core.observer);
            let hold = Hold::new(key.clone(), grant, &core.queue, observer);
            if !hold.expires().is_past() {
                return Ok(AcquireOutcome::Acquired(Arc::new(hold)));
            }
            // The reply took longer than the lease, so the lock may have expired in Redis.
            owner::retire();
            release_orphan(core, key, hold.owner(), terms);
            Ok(AcquireOutcome::TooLate)
        }
    }
}

/// Undoes the copies of an acquire request that got no reply, so that none of them leaves a lock
/// without a holder. `owner` must not be used again.
pub(super) fn undo_lost_copies(
    core: &Core,
    key: &LockKey,
    owner: OwnerId,
    terms: Terms,
    lost_copies: LostCopies,
) {
    if lost_copies.is_ambiguous() {
        lost_copies.compensate(&script::release(key, &owner));
        release_orphan(core, key, owner, terms);
    }
}

/// Releases these grants. What gets no reply in time is released in the background.
pub(super) fn release_unused(core: &Core, unused: Vec<UnusedGrant>, budget: &CallBudget) {
    let requests: Vec<Request<'_>> = unused
        .iter()
        .map(|grant| Request {
            client: &core.redis,
            lock: &grant.key,
            call: script::release(&grant.key, &grant.owner),
        })
        .collect();
    let results = request_batch(&requests, |_| None, budget.reply_deadline(), budget);
    drop(requests);
    for (grant, result) in unused.into_iter().zip(results) {
        let UnusedGrant {
            key,
            owner,
            terms,
            lost_copies,
        } = grant;
        if result.is_err() {
            owner::retire();
            release_orphan(core, &key, owner.clone(), terms);
        }
        undo_lost_copies(core, &key, owner, terms, lost_copies);
    }
}

/// Releases in the background what `owner` may hold. `owner` must not be used again.
pub(super) fn release_orphan(core: &Core, key: &LockKey, owner: OwnerId, terms: Terms) {
    let lease = Duration::from_millis(terms.millis);
    core.watchdog.release_orphan(key.clone(), owner, lease);
}

/// Acquires a further level of this thread's hold.
fn reenter(
    core: &Arc<Core>,
    hold: Arc<Hold>,
    kind: LockKind,
    terms: Terms,
    budget: &CallBudget,
) -> Result<HeldPart> {
    hold.check()?;
    if kind == LockKind::Fenced && hold.token().is_none() {
        return Err(Error::Config {
            field: "name",
            value: format!("{:?}", hold.key().name()),
            rule: "this thread holds it as a lock without a token; use one kind of lock per name"
                .into(),
        });
    }
    let count = hold.count() + 1;
    let written = hold_requests::recount(core, &hold, count, terms.millis, budget);
    add_level(core, hold, terms, written)
}

/// Adds a level if Redis has the new count. `written` is the moment before that request was sent.
pub(super) fn add_level(
    core: &Arc<Core>,
    hold: Arc<Hold>,
    terms: Terms,
    written: Result<Moment>,
) -> Result<HeldPart> {
    let level = written.and_then(|asked| hold.push(terms, asked));
    // The lease was prolonged, or the count in Redis is unknown: both change the schedule.
    core.watchdog.reschedule(hold.id());
    let level = level?;
    core.observer.counters.reentries.add(1);
    Ok(HeldPart {
        core: Arc::clone(core),
        hold,
        level,
    })
}
