//! The one way to a lock: the queue at home, a try, a wait for whoever holds it, another try.

use std::sync::Arc;
use std::time::Duration;

use super::handle::{Handle, Kind};
use super::held::Held;
use super::standing;
use super::ticket::{silence, wait_in_line};
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
use crate::script::{self, Attempt, Call};

/// Between tries where no message can tell of a release.
const FIRST_POLL: Duration = Duration::from_millis(20);
const LONGEST_POLL: Duration = Duration::from_secs(1);

/// How many of the copies of a request that had no reply the next one looks for. A lock that an older
/// one took runs out with its lease.
const OLDER_NAMES: usize = 7;

/// Takes a lock, or a further level of it; `None` if the budget ends before.
pub(super) fn acquire(handle: &Handle, lease: Lease, budget: &CallBudget) -> Result<Option<Held>> {
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
            match wait_in_line(handle, parts, budget, Moment::now())? {
                Some(ticket) => ticket,
                None => return Ok(None),
            }
        }
    };
    take(handle, ticket, terms, budget)
}

/// Asks Redis for the lock, again and again. Whatever way this ends without the lock, `ticket` is
/// dropped and goes to the next thread at home.
pub(super) fn take(
    handle: &Handle,
    ticket: Ticket,
    terms: Terms,
    budget: &CallBudget,
) -> Result<Option<Held>> {
    let Handle { core, key, .. } = handle;
    // Listening before the try, where that costs nothing, saves another try after it.
    let mut listener = core.subscriber.listen_if_live(key, || budget.unparker());
    let mut polls = Backoff::new(FIRST_POLL, LONGEST_POLL);
    loop {
        let unanswered = Some(ticket.begin_request());
        budget.set_unanswered_since(unanswered);
        silence(core, key, unanswered, budget)?;
        let found = attempt(handle, terms, budget);
        // A refusal says nothing of who has the lock: those who come next ask for themselves.
        if matches!(found, Ok(Found::Taken(_) | Found::Held(_))) {
            ticket.replied();
        }
        let left = match found? {
            Found::Taken(hold) => {
                return Ok(Some(begin(core, ticket, hold, budget)));
            }
            Found::Held(left) => left + core.wait_jitter(),
            Found::Unreplicated(unwanted, confirmed) => {
                let briefly = budget.for_cleanup(core.command_timeout);
                give_back(core, vec![unwanted], &briefly);
                if budget.is_wait_over() || budget.reply_deadline().is_past() {
                    return Err(core.redis.too_few_replicas(key, confirmed));
                }
                ticket.unreplicated(confirmed);
                // Nobody else has it, so there is nothing to listen for; its own release would wake it.
                listener = None;
                budget.wait(polls.next().min(budget.reply_deadline().left()));
                budget.check_interrupt(key.name())?;
                continue;
            }
            Found::TooLate => {
                if budget.is_wait_over() || budget.reply_deadline().is_past() {
                    return Err(too_late(core, key, budget));
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
        // Without a subscription, as until the first one is confirmed, only a poll tells of a release.
        let poll = polls.next();
        let nap = if listener.is_live() {
            left
        } else {
            left.min(poll)
        };
        if budget.wait(nap) {
            core.observer.counters.wakeups_by_message.add(1);
        } else {
            core.observer.counters.wakeups_by_timeout.add(1);
        }
        budget.check_interrupt(key.name())?;
    }
}

pub(super) fn too_late(core: &Core, key: &LockKey, budget: &CallBudget) -> Error {
    let cause = "every answer came after the end of the lease that it granted";
    core.redis.unavailable(key, budget, cause.into())
}

/// A hold begins: its thread keeps the ticket, and it is watched.
pub(super) fn begin(
    core: &Arc<Core>,
    ticket: Ticket,
    hold: Arc<Hold>,
    budget: &CallBudget,
) -> Held {
    ticket.keep(Arc::clone(&hold));
    core.watchdog.watch(hold.id(), Arc::clone(&hold) as _);
    core.observer.counters.acquisitions.add(1);
    core.observer.counters.waited(budget.elapsed());
    Held {
        core: Arc::clone(core),
        hold,
        level: Hold::FIRST_LEVEL,
    }
}

/// What one try found.
pub(super) enum Found {
    Taken(Arc<Hold>),
    /// Somebody else holds it, for so long at least.
    Held(Duration),
    /// It was granted, for a lease that was over when the answer came.
    TooLate,
    /// It was granted, and is to be given back: only this many replicas have it.
    Unreplicated(Unwanted, u32),
}

/// A lock that was granted and no thread is to hold.
pub(super) struct Unwanted {
    key: LockKey,
    owner: OwnerId,
    terms: Terms,
    /// Copies of the request that may still take it.
    lost_copies: LostCopies,
}

impl Unwanted {
    /// A grant that became no hold.
    pub(super) fn new(hold: &Hold, terms: Terms) -> Self {
        Self {
            key: hold.key().clone(),
            owner: hold.owner(),
            terms,
            lost_copies: LostCopies::default(),
        }
    }
}

/// One try, to a clear answer.
fn attempt(handle: &Handle, terms: Terms, budget: &CallBudget) -> Result<Found> {
    let Handle { core, key, .. } = handle;
    let mut owner = OwnerId::current(&core.id);
    let first = request(handle, &owner, terms);
    let again = || {
        owner = for_another_copy(&owner);
        Some(request(handle, &owner, terms))
    };
    let answer = core.redis.request_with_retry(key, &first, again, budget);
    found(handle, owner, terms, answer)
}

pub(super) fn request(handle: &Handle, owner: &OwnerId, terms: Terms) -> Call {
    match handle.kind {
        Kind::Plain => script::acquire(&handle.key, owner, terms.millis),
        Kind::Fenced => script::acquire_fenced(&handle.key, owner, terms.millis),
    }
}

/// The owner for another copy of a request. Each copy has its own name: a late copy could otherwise
/// take the lock again, after it was lost, under the name of the old hold.
pub(super) fn for_another_copy(owner: &OwnerId) -> OwnerId {
    owner.newest(OLDER_NAMES).with_fresh_name()
}

/// What the answer to a request means that was last sent for this owner.
pub(super) fn found(
    handle: &Handle,
    owner: OwnerId,
    terms: Terms,
    answer: Result<Reply, NoReply>,
) -> Result<Found> {
    let Handle { core, key, kind } = handle;
    let answer = match answer {
        Ok(answer) => answer,
        Err(no_reply) => {
            take_back(core, key, owner, terms, no_reply.lost_copies);
            return Err(no_reply.error);
        }
    };
    let found = match kind {
        Kind::Plain => script::attempt(&answer.reply),
        Kind::Fenced => script::attempt_fenced(&answer.reply),
    };
    let found = match found {
        Ok(found) => found,
        // The lock may have been granted, but the reply does not say so.
        Err(error) => {
            owner::retire();
            answer.lost_copies.compensate(&script::release(key, &owner));
            withdraw(core, key, owner, terms);
            return Err(core.redis.refusal(key, error));
        }
    };
    match found {
        Attempt::Held(millis) => {
            take_back(core, key, owner, terms, answer.lost_copies);
            // What never expires can still be deleted without a word.
            Ok(Found::Held(
                millis.map_or(LONGEST_POLL, Duration::from_millis),
            ))
        }
        Attempt::Taken(token) => {
            if let Some(confirmed) = answer.unreplicated {
                core.observer.counters.unreplicated.add(1);
                let unwanted = Unwanted {
                    key: key.clone(),
                    owner,
                    terms,
                    lost_copies: answer.lost_copies,
                };
                return Ok(Found::Unreplicated(unwanted, confirmed));
            }
            let (owner, older) = owner.split();
            if let Some(older) = older {
                answer.lost_copies.compensate(&script::release(key, &older));
            }
            let grant = Grant {
                owner,
                asked: answer.asked,
                terms,
                token,
            };
            let observer = Arc::clone(&core.observer);
            let hold = Hold::new(key.clone(), grant, &core.queue, observer);
            if !hold.expires().is_past() {
                return Ok(Found::Taken(Arc::new(hold)));
            }
            // The answer took longer than the lease: nobody can say whether the lock is still held.
            owner::retire();
            withdraw(core, key, hold.owner(), terms);
            Ok(Found::TooLate)
        }
    }
}

/// Takes back the copies of an acquire that got no clear answer, so that no lock is left without a
/// holder. `owner` is no more.
pub(super) fn take_back(
    core: &Core,
    key: &LockKey,
    owner: OwnerId,
    terms: Terms,
    lost_copies: LostCopies,
) {
    if lost_copies.is_ambiguous() {
        lost_copies.compensate(&script::release(key, &owner));
        withdraw(core, key, owner, terms);
    }
}

/// Gives these locks back. What gets no answer in time is released in the background.
pub(super) fn give_back(core: &Core, unwanted: Vec<Unwanted>, budget: &CallBudget) {
    let requests: Vec<Request<'_>> = unwanted
        .iter()
        .map(|unwanted| Request {
            client: &core.redis,
            lock: &unwanted.key,
            call: script::release(&unwanted.key, &unwanted.owner),
        })
        .collect();
    let answers = request_batch(&requests, |_| None, budget.reply_deadline(), budget);
    drop(requests);
    for (unwanted, answer) in unwanted.into_iter().zip(answers) {
        let Unwanted {
            key,
            owner,
            terms,
            lost_copies,
        } = unwanted;
        if answer.is_err() {
            owner::retire();
            withdraw(core, &key, owner.clone(), terms);
        }
        take_back(core, &key, owner, terms, lost_copies);
    }
}

/// Releases in the background what `owner`, who is no more, may hold.
pub(super) fn withdraw(core: &Core, key: &LockKey, owner: OwnerId, terms: Terms) {
    let lease = Duration::from_millis(terms.millis);
    core.watchdog.release_orphan(key.clone(), owner, lease);
}

/// A further level of a hold that this thread has.
fn reenter(
    core: &Arc<Core>,
    hold: Arc<Hold>,
    kind: Kind,
    terms: Terms,
    budget: &CallBudget,
) -> Result<Held> {
    hold.check()?;
    if kind == Kind::Fenced && hold.token().is_none() {
        return Err(Error::Config {
            field: "name",
            value: format!("{:?}", hold.key().name()),
            rule:
                "this thread holds it by a lock without a token; use one kind of lock for one name"
                    .into(),
        });
    }
    let count = hold.count() + 1;
    let written = standing::recount(core, &hold, count, terms.millis, budget);
    add_level(core, hold, terms, written)
}

/// Adds the level if its count was written. `written` is when that was asked for.
pub(super) fn add_level(
    core: &Arc<Core>,
    hold: Arc<Hold>,
    terms: Terms,
    written: Result<Moment>,
) -> Result<Held> {
    let level = written.and_then(|asked| hold.push(terms, asked));
    // For the lease that was granted, or the count that is in doubt.
    core.watchdog.reschedule(hold.id());
    let level = level?;
    core.observer.counters.reentries.add(1);
    Ok(Held {
        core: Arc::clone(core),
        hold,
        level,
    })
}
