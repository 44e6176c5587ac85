//! Acquires a lock: takes the ticket, requests the lock, waits for a release, tries again.
//!
//! | file | duty |
//! |---|---|
//! | `mod` | the calls, with their spans; which requests follow |
//! | `own` | a further level of what this thread holds already |
//! | `begin` | begins a hold: handed over, idle, or granted by Redis |
//! | `acquisition` | the state of a call that requests the lock; gives up; leaves it to others |
//! | `round` | one request, and what follows its reply |
//! | `sleep` | the waits between requests |

mod acquisition;
mod begin;
mod own;
mod round;
mod sleep;

use std::time::Duration;

use super::ask::Ask;
use super::held_lock::HeldLock;
use super::local_wait::wait_for_claim;
use super::lock_call::LockCall;
use super::single_lock::SingleLock;
use crate::base::Interrupt;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::local::{Claim, Hold};
use crate::observe::{WaitOutcome, WaitSpan, are_spans_enabled};
use crate::protocol::AcquireOptions;
use acquisition::Acquisition;

pub(crate) use begin::{TicketLost, keep, take_without_request};
use own::add_level;
pub(crate) use own::{check_tokens, push_level};

impl SingleLock {
    /// Acquires the lock, or a further level of it; `None` if `wait` ends first. Without one, the
    /// wait has no limit. Fails if the interrupt is raised.
    pub(crate) fn lock_within(
        &self,
        wait: Option<Duration>,
        lease: Lease,
        interrupt: Option<&Interrupt>,
    ) -> Result<Option<HeldLock>> {
        self.check_process()?;
        let budget = &self.to_acquire(self.core.budget_to_wait(wait, interrupt));
        let span = WaitSpan::enter(self.name(), self.kind.name);
        let terms = lease.terms(self.name(), self.core.watchdog_lease);
        let result = match terms {
            Ok(terms) => LockCall {
                lock: self,
                terms,
                budget,
                begun: budget.started(),
                also: &[],
            }
            .acquire(),
            Err(error) => Err(error),
        };
        end_wait(span, &self.core, self.kind.name, result, Option::as_slice)
    }
}

/// Ends the span of a call that acquires a lock of this type, and counts a failure. Then begins the
/// spans of the new holds, which are not within that of the wait.
pub(crate) fn end_wait<T>(
    span: WaitSpan,
    core: &Core,
    type_name: &'static str,
    result: Result<Option<T>>,
    levels: impl Fn(&Option<T>) -> &[HeldLock],
) -> Result<Option<T>> {
    let outcome = WaitOutcome::of(&result, |held| match held {
        Some(_) if levels(held).iter().any(HeldLock::is_new) => WaitOutcome::ACQUIRED,
        Some(_) => WaitOutcome::REENTERED,
        None => WaitOutcome::TIMEOUT,
    });
    span.end(outcome);
    core.observer.count_failure(outcome);
    if are_spans_enabled()
        && let Ok(held) = &result
    {
        for level in levels(held).iter().filter(|level| level.is_new()) {
            let node = level.core.node(level.hold.key());
            level.hold.begin_span(type_name, &node);
        }
    }
    result
}

impl<'a> LockCall<'a> {
    /// Acquires the lock, or a further level of it; `None` if the budget ends first. Fails after a
    /// shutdown, which ends the budget.
    pub(crate) fn acquire(self) -> Result<Option<HeldLock>> {
        let LockCall { lock, budget, .. } = self;
        budget.check_interrupt(lock.name())?;
        if !lock.kind.has_ticket {
            return self.acquire_permit();
        }
        let entered = lock.enter_queue(self.begun);
        if let Some(hold) = entered.own {
            return add_level(lock, hold, self.terms, budget).map(Some);
        }
        let within = entered.other.as_deref();
        own::check_other(lock, within)?;
        self.acquire_first_level(entered.claim, within)
    }

    /// Acquires the lock, which this thread does not hold, and whose ticket it may have. If this
    /// returns without the lock, the ticket goes to the next waiting thread of this process.
    /// `within` is the exclusive hold of this thread on the lock of which it acquires a shared one.
    pub(crate) fn acquire_first_level(
        self,
        mut claim: Option<Claim>,
        within: Option<&Hold>,
    ) -> Result<Option<HeldLock>> {
        let LockCall { lock, budget, .. } = self;
        loop {
            let claim = match claim.take() {
                Some(claim) => Some(claim),
                None => wait_for_claim(self)?,
            };
            let Some(mut claim) = claim else {
                return Ok(None);
            };
            if let Err(error) = budget.check_interrupt(lock.name()) {
                Acquisition::new(self, claim, None).abandon();
                return Err(error);
            }
            match take_without_request(self, &mut claim) {
                Ok(None) => {}
                Ok(held) => return Ok(held),
                // The next round waits in the local queue.
                Err(TicketLost) => continue,
            }
            let _call = lock.core.watchdog.delay_shutdown();
            budget.check_interrupt(lock.name())?;
            // Before the first request, the thread may have to leave the lock to others, or to
            // listen.
            if !(claim.is_alone && lock.needs_no_listener()) {
                return Acquisition::new(self, claim, within).run(None);
            }
            // Redis nearly always grants it, so nothing is prepared for a wait.
            budget.set_unanswered_since(Some(self.begun));
            let mut ask = Ask::new(lock, self.terms);
            let options = self.first_options();
            let first = match ask.send(&options, None, None, budget) {
                Ok(granted) => {
                    if ask.may_be_called && options.place.is_some() {
                        // An earlier copy may enter the line late, and no thread listens for it.
                        let SingleLock { core, key, .. } = lock;
                        core.subscriber.expect_call(key, &core.place(key));
                    }
                    return Ok(Some(keep(self, claim, granted)));
                }
                Err(not_granted) => not_granted,
            };
            let mut acquisition = Acquisition::new(self, claim, within);
            acquisition.note_traces(&ask, options.waits);
            return acquisition.run(Some(first));
        }
    }

    /// What the first request is for.
    fn first_options(self) -> AcquireOptions {
        let LockCall {
            lock,
            terms,
            budget,
            ..
        } = self;
        let SingleLock { core, key, .. } = lock;
        let waits = !budget.is_wait_over();
        let place = || core.subscriber.in_line(key, &core.place(key));
        AcquireOptions {
            holds: lock.holds_of_a_grant(terms, 1),
            waits,
            place: (waits && lock.kind.has_line).then(place),
            within: None,
            total: lock.total,
            adopts: false,
        }
    }

    /// Acquires a permit; `None` if the budget ends first.
    ///
    /// The first request needs no ticket, so the threads of a client send their first requests at
    /// the same time, while no other client is known to wait. The ticket is the right to wait: one
    /// thread of the client has its place in the line, and those behind it wait in the local queue.
    /// A thread that waits is not passed by a thread that comes later and waits, too.
    fn acquire_permit(self) -> Result<Option<HeldLock>> {
        let LockCall { lock, budget, .. } = self;
        let may_pass = budget.is_wait_over();
        let queue = &lock.core.queue;
        if may_pass || queue.needs_no_ticket(&lock.id) {
            let claim = queue.claim_without_ticket(&lock.id);
            let at_once = budget.without_wait();
            let _call = lock.core.watchdog.delay_shutdown();
            budget.check_interrupt(lock.name())?;
            let call = LockCall {
                budget: &at_once,
                ..self
            };
            let mut acquisition = Acquisition::at_once(call, claim, !may_pass);
            let granted = acquisition.acquire(None);
            if let Ok(Some(granted)) = granted {
                return Ok(Some(acquisition.keep(granted)));
            }
            acquisition.take_back();
            let has_time = !budget.is_wait_over()
                && !at_once.call_deadline().is_past()
                && !at_once.reply_deadline().is_past();
            match granted {
                // The call has time for further requests. It is unavailable if the reply took
                // longer than the lease.
                Ok(_) | Err(Error::TooFewReplicas { .. } | Error::Unavailable { .. })
                    if has_time => {}
                result => return result.map(|_| None),
            }
        }
        self.acquire_first_level(lock.enter_queue(self.begun).claim, None)
    }
}
