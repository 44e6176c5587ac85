//! Takes and adds permits for several threads of the client with one request.
//!
//! A request for several threads has the effect of a request of each of them, executed one after
//! the other. If it has no clear reply, what it took is given back as usual, and each thread sends
//! a request of its own; what it added is repeated as usual, and the error of each thread says so.
//!
//! If Redis refuses a request for several threads, these threads and all that wait to send a request
//! enter the queue in the order in which they came.
//!
//! A release hands its permits over to a thread that waits until it or another thread sends its
//! first request, and sends nothing. It does so for at most a slice after a grant of Redis, and
//! while no thread is in the queue. Redis grants nothing to threads without a place while another
//! client is in the line, so that client waits at most a slice longer.

use std::time::Duration;

use super::waiting::Step;
use super::{IfUnclear, Number, REPEATED};
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::error::{Error, Result};
use crate::local::{Batch, Outcome, Turn};
use crate::protocol::{Ask, RequestCopy};
use crate::request::LostCopies;

/// How long a thread sleeps whose time is over, and whose permits another thread adds: that thread
/// has begun before, so its time is over, too.
const LATE: Duration = Duration::from_millis(10);

impl Number {
    /// The first request of a thread for permits, which has no place in the line. Other threads may
    /// send it, or may be served by it.
    pub(super) fn take_first(&self, permits: u32, budget: &CallBudget) -> Result<Step<'_>> {
        let ask = Ask {
            waits: true,
            ..Ask::default()
        };
        if self.core.redis.min_replicas.is_some() {
            return self.take(permits, ask, None, budget);
        }
        let turn = self.shared.takes.join(permits, || budget.unparker());
        match await_turn(turn, budget, true) {
            Turn::Sends(batch) => self.take_for(batch, ask, budget),
            Turn::Over(Outcome::Done) => Ok(Step::Done(1)),
            Turn::Over(Outcome::Queued(number)) => {
                // The wake-up must not end the next sleep.
                budget.take_wake_up();
                Ok(Step::Queued(self.shared.waiting.queued(number)))
            }
            Turn::Over(_) | Turn::Waits(_) => {
                budget.check_interrupt(self.name())?;
                self.take(permits, ask, None, budget)
            }
        }
    }

    /// Sends a request for the threads of the batch.
    fn take_for(
        &self,
        mut batch: Batch<'_>,
        ask: Ask<'_>,
        budget: &CallBudget,
    ) -> Result<Step<'_>> {
        let queue = &self.shared.waiting;
        // Other threads have been refused in the meantime, and are before those of the batch.
        if queue.is_used() {
            return Ok(Step::Queued(batch.refuse(budget.unparker(), queue)));
        }
        let ask = Ask {
            others: batch.threads - 1,
            ..ask
        };
        let taken = self.take(batch.permits, ask, None, budget);
        match &taken {
            Ok(Step::Done(threads)) => {
                batch.granted();
                let unused = batch.serve(threads - 1);
                if unused > 0 {
                    self.give_up(unused * batch.permits);
                }
                batch.refuse_others(queue);
            }
            Ok(_) if budget.is_wait_over() => batch.refuse_others(queue),
            Ok(_) => return Ok(Step::Queued(batch.refuse(budget.unparker(), queue))),
            Err(_) => batch.end(&Outcome::NotSent),
        }
        taken
    }

    /// Adds in the background the permits of threads that have not waited for them.
    fn give_up(&self, permits: u32) {
        let id = self.core.lanes.next();
        let copy = RequestCopy {
            id: &id,
            is_repeated: true,
        };
        let call = self.key().add(copy, permits.cast_signed());
        let (lost, limit) = (LostCopies::default(), Moment::now().after(REPEATED));
        self.clean_up(id, call, lost, IfUnclear::Repeat, limit);
    }

    /// Adds permits that a thread releases, or hands them over. Another thread may send the request.
    pub(super) fn add_released(&self, permits: u32, budget: &CallBudget) -> Result<()> {
        let shared = &self.shared;
        if !shared.waiting.is_used() && shared.takes.hand_over(permits) {
            return Ok(());
        }
        let turn = shared.releases.join(permits, || budget.unparker());
        match await_turn(turn, budget, false) {
            Turn::Sends(batch) => self.add_for(batch, budget),
            Turn::Over(Outcome::Done) => Ok(()),
            Turn::Over(Outcome::Unclear(cause, is_repeated)) => {
                let cause = (*cause).into();
                let error = self.core.redis.unavailable(&self.key, budget, cause);
                Err(error.of_release(is_repeated))
            }
            Turn::Over(_) | Turn::Waits(_) => self.add(permits.cast_signed(), budget),
        }
    }

    /// Sends a request for the threads of the batch.
    fn add_for(&self, mut batch: Batch<'_>, budget: &CallBudget) -> Result<()> {
        let (threads, permits) = (batch.threads, batch.permits.cast_signed());
        let added = self.add(permits * threads.cast_signed(), budget);
        match &added {
            Ok(()) => {
                batch.serve(threads - 1);
            }
            Err(Error::NotReleased { cause, retried, .. }) => {
                batch.end(&Outcome::Unclear(cause.to_string().into(), *retried));
            }
            // Nothing was added, perhaps because the sum is too large.
            Err(_) if threads > 1 => {
                batch.end(&Outcome::NotSent);
                return self.add(permits, budget);
            }
            Err(_) => {}
        }
        added
    }
}

/// Waits until the thread sends a request, or its change is over. If the budget ends first, the
/// thread leaves; one whose change is sent leaves only if it `abandons` that. Runs no code of the
/// user, which could panic: the other threads rely on this one.
fn await_turn<'a>(mut turn: Turn<'a>, budget: &CallBudget, abandons: bool) -> Turn<'a> {
    while let Turn::Waits(waiting) = turn {
        let left = budget.reply_deadline().left();
        let is_over = if abandons {
            budget.park(left.min(budget.wait_left()));
            left.is_zero() || budget.is_wait_over() || budget.is_interrupted()
        } else {
            budget.park(left.max(LATE));
            left.is_zero()
        };
        turn = match is_over {
            true => waiting.leave(abandons),
            false => waiting.turn(),
        };
    }
    turn
}
