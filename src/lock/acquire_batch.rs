//! Requests several locks of one client together, once.

use std::sync::Arc;

use super::acquire::{
    AcquireOutcome, UnusedGrant, acquire, acquire_call, acquire_with_ticket, add_level, outcome_of,
    owner_of_next_copy, release_unused, start_hold, too_late_error,
};
use super::handle::Handle;
use super::hold_requests::recounted;
use super::parts::{HeldPart, Needed, release_all};
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::owner::{OwnerId, ThreadId};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lease::{Lease, Terms};
use crate::local::{Hold, QueueEntry, Ticket};
use crate::request::{NoReply, Reply, Request, request_batch};
use crate::script::{self, Call};

/// The result of requesting several locks together.
pub(super) struct BatchOutcome {
    /// The granted locks before the first one that was not granted.
    pub(super) held: Vec<HeldPart>,
    /// The first lock that was not granted; `None` if all were granted or the wait ended.
    pub(super) not_granted: Option<NotGranted>,
}

/// A lock that was not granted. The caller requests it alone.
pub(super) struct NotGranted {
    /// The thread's ticket; `None` if the thread holds the lock and requested a further level.
    ticket: Option<Ticket>,
    /// The request got no reply.
    pub(super) is_unanswered: bool,
}

impl NotGranted {
    fn new(ticket: Option<Ticket>) -> Self {
        Self {
            ticket,
            is_unanswered: false,
        }
    }

    /// Requests the lock and waits for it.
    pub(super) fn acquire(
        self,
        lock: &Handle,
        lease: Lease,
        budget: &CallBudget,
    ) -> Result<BatchOutcome> {
        let held = match self.ticket {
            Some(ticket) => {
                acquire_with_ticket(lock, ticket, lease.terms(lock.core.watchdog_lease)?, budget)?
            }
            None => acquire(lock, lease, budget)?,
        };
        Ok(BatchOutcome {
            held: held.into_iter().collect(),
            not_granted: None,
        })
    }
}

/// Acquires the locks before the first one that is not granted. What was granted after that one is
/// released. After an error, all is released.
pub(super) fn acquire_batch(
    locks: &[&Handle],
    lease: Lease,
    budget: &CallBudget,
) -> Result<BatchOutcome> {
    let Handle { core, key, .. } = locks[0];
    core.check_process(key.name())?;
    budget.check_interrupt(key.name())?;
    let terms = lease.terms(core.watchdog_lease)?;
    let mut parts = enter_queues(locks)?;
    if parts.len() < 2 {
        let ticket = parts.pop().and_then(|part| part.request.ticket());
        return NotGranted::new(ticket).acquire(locks[0], lease, budget);
    }
    let since = parts.iter_mut().filter_map(Part::begin).min();
    budget.set_unanswered_since(Some(since.unwrap_or_else(Moment::now)));
    let requests: Vec<Request<'_>> = parts.iter().map(|part| part.request(terms)).collect();
    let next_copy = |index: usize| Some(parts[index].next_call(terms));
    // Time for two copies of a request. Until then granted locks are not renewed, and locks after
    // one that was not granted are kept from other clients.
    let briefly = Moment::now().after(core.command_timeout * 2);
    let reply_deadline = budget.reply_deadline().min(briefly);
    let results = request_batch(&requests, next_copy, reply_deadline, budget);
    let (mut kept, mut to_release, mut stopped) = (Vec::new(), ToRelease::default(), None);
    for (part, result) in parts.into_iter().zip(results) {
        match part.evaluate(terms, result, budget) {
            Ok(granted) if stopped.is_none() => kept.push(granted),
            Ok(granted) => to_release.add(granted, terms),
            Err(failed) => {
                to_release.unused.extend(failed.unused);
                if stopped.is_none() {
                    stopped = Some((failed.not_granted, failed.error));
                } else {
                    to_release.tickets.extend(failed.not_granted.ticket);
                }
            }
        }
    }
    let not_granted = match stopped {
        Some((not_granted, Some(error))) => {
            to_release.tickets.extend(not_granted.ticket);
            kept.into_iter()
                .for_each(|granted| to_release.add(granted, terms));
            to_release.undo(core, budget);
            return Err(error);
        }
        Some((not_granted, None)) => Some(not_granted),
        None => None,
    };
    let held = |granted| match granted {
        Granted::Lock(ticket, hold) => start_hold(core, ticket, hold, budget),
        Granted::Level(held) => held,
    };
    let held = kept.into_iter().map(held).collect();
    to_release.undo(core, budget);
    Ok(BatchOutcome { held, not_granted })
}

/// One of the locks that are requested together.
struct Part<'a> {
    lock: &'a Handle,
    request: PartRequest,
    /// The owner id in the newest copy of the request.
    owner: OwnerId,
}

/// What is requested for a lock.
enum PartRequest {
    /// The lock itself: no thread of this process holds it.
    Acquire(Ticket),
    /// A further level of this thread's hold, which then has this many levels.
    Recount(Arc<Hold>, u32),
}

enum Granted {
    Lock(Ticket, Arc<Hold>),
    Level(HeldPart),
}

/// A lock that was not granted, and why.
struct FailedPart {
    not_granted: NotGranted,
    /// Set if too few replicas confirmed the grant.
    unused: Option<UnusedGrant>,
    /// Set if the lock is not requested again.
    error: Option<Error>,
}

impl PartRequest {
    fn ticket(self) -> Option<Ticket> {
        match self {
            Self::Acquire(ticket) => Some(ticket),
            Self::Recount(..) => None,
        }
    }
}

/// The locks that this thread can request now: those before the first one that another thread of
/// this process holds or requests.
fn enter_queues<'a>(locks: &[&'a Handle]) -> Result<Vec<Part<'a>>> {
    let thread = ThreadId::current();
    let mut parts = Vec::with_capacity(locks.len());
    for &lock in locks {
        let request = match lock.core.queue.enter(lock.key.key(), thread) {
            QueueEntry::Front(ticket) => PartRequest::Acquire(ticket),
            QueueEntry::Held(hold) => {
                hold.check()?;
                let levels = hold.count() + 1;
                PartRequest::Recount(hold, levels)
            }
            QueueEntry::Queued => break,
        };
        parts.push(Part {
            lock,
            request,
            owner: OwnerId::current(&lock.core.id),
        });
    }
    Ok(parts)
}

impl<'a> Part<'a> {
    /// Begins the request. Returns since when this process has had no reply about the lock.
    fn begin(&mut self) -> Option<Moment> {
        match &self.request {
            PartRequest::Acquire(ticket) => Some(ticket.begin_request()),
            PartRequest::Recount(hold, _) => {
                self.owner = hold.begin_count();
                None
            }
        }
    }

    fn request(&self, terms: Terms) -> Request<'a> {
        Request {
            client: &self.lock.core.redis,
            lock: &self.lock.key,
            call: self.call(terms),
        }
    }

    fn call(&self, terms: Terms) -> Call {
        match self.request {
            PartRequest::Acquire(_) => acquire_call(self.lock, &self.owner, terms),
            PartRequest::Recount(_, levels) => {
                script::recount(&self.lock.key, &self.owner, levels, terms.millis)
            }
        }
    }

    /// The call in another copy of the request, while Redis may still execute an earlier one.
    fn next_call(&mut self, terms: Terms) -> Call {
        self.owner = match &self.request {
            PartRequest::Acquire(_) => owner_of_next_copy(&self.owner),
            PartRequest::Recount(hold, _) => hold.retry_count(&self.owner),
        };
        self.call(terms)
    }

    /// Evaluates the reply.
    fn evaluate(
        self,
        terms: Terms,
        result: Result<Reply, NoReply>,
        budget: &CallBudget,
    ) -> Result<Granted, Box<FailedPart>> {
        let Handle { core, key, .. } = self.lock;
        let is_over = budget.is_wait_over();
        let ticket = match self.request {
            PartRequest::Acquire(ticket) => ticket,
            PartRequest::Recount(hold, _) => {
                let written = recounted(core, &hold, result);
                let level = add_level(core, hold, terms, written);
                return level
                    .map(Granted::Level)
                    .map_err(|error| Box::new(FailedPart::new(None).with_error(error, is_over)));
            }
        };
        let failed = match outcome_of(self.lock, self.owner, terms, result) {
            Ok(AcquireOutcome::Acquired(hold)) => return Ok(Granted::Lock(ticket, hold)),
            Ok(AcquireOutcome::HeldByOther(_)) => {
                ticket.replied();
                FailedPart::new(Some(ticket))
            }
            Ok(AcquireOutcome::TooLate) => FailedPart {
                error: is_over.then(|| too_late_error(core, key, budget)),
                ..FailedPart::new(Some(ticket))
            },
            Ok(AcquireOutcome::Unreplicated(unused, confirmed)) => {
                ticket.unreplicated(confirmed);
                FailedPart {
                    unused: Some(unused),
                    error: is_over.then(|| core.redis.too_few_replicas(key, confirmed)),
                    ..FailedPart::new(Some(ticket))
                }
            }
            Err(error) => FailedPart::new(Some(ticket)).with_error(error, is_over),
        };
        Err(Box::new(failed))
    }
}

impl FailedPart {
    fn new(ticket: Option<Ticket>) -> Self {
        Self {
            not_granted: NotGranted::new(ticket),
            unused: None,
            error: None,
        }
    }

    /// Records an error. After a request without a reply, the lock is requested again while there
    /// is time.
    fn with_error(mut self, error: Error, is_over: bool) -> Self {
        if matches!(error, Error::Unavailable { .. }) && !is_over {
            self.not_granted.is_unanswered = true;
        } else {
            self.error = Some(error);
        }
        self
    }
}

/// What has to be released.
#[derive(Default)]
struct ToRelease {
    unused: Vec<UnusedGrant>,
    levels: Vec<HeldPart>,
    /// Dropped after the release, so that other threads of this process get them then.
    tickets: Vec<Ticket>,
}

impl ToRelease {
    fn add(&mut self, granted: Granted, terms: Terms) {
        match granted {
            Granted::Lock(ticket, hold) => {
                self.unused.push(UnusedGrant::new(&hold, terms));
                self.tickets.push(ticket);
            }
            Granted::Level(held) => self.levels.push(held),
        }
    }

    /// Releases all in the rest of the call's time. What gets no reply is released in the
    /// background.
    fn undo(self, core: &Core, budget: &CallBudget) {
        let rest = budget.remaining(core.command_timeout);
        if !self.unused.is_empty() {
            release_unused(core, self.unused, &rest);
        }
        if !self.levels.is_empty() {
            let _ = release_all(&self.levels, Needed::All, &rest);
        }
    }
}
