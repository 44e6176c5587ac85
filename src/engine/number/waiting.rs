//! Waits for permits: repeats a request, and sleeps in between.
//!
//! The first request needs no ticket, so the threads of a client send their first requests at the
//! same time, while no other client is known to wait. A thread that is refused waits in the local
//! queue for the ticket of the semaphore. With it, the thread has the place of the client in the
//! line (`lua/shared/permit_line.lua`), and sleeps until the client is called. While it hears of
//! changes, it sends a request only after a message. The watchdog looks after its line. In no line,
//! it also sends one within half a minute, because another program can change the key without a
//! message.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;
use std::time::Duration;

use super::{NextRequest, Number};
use crate::base::CallBudget;
use crate::engine::line::{InLine, LONGEST, deaf_sleep, rare_sleep};
use crate::engine::wait::polls;
use crate::engine::{
    Channel, LockCall, SingleLock, Wait, no_reply, repeat_until_done, wait_for_claim,
};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::local::Claim;
use crate::protocol::{AcquireOptions, PERMITS, Standing};
use crate::script;

/// What a thread that was refused waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PermitRefusal {
    /// It asks again after this time, even without a message.
    pub(super) again: Option<Duration>,
    /// Where the client stands in the line.
    pub(super) standing: Standing,
}

/// The wait of the thread that has the ticket.
struct PermitWait<'a> {
    number: &'a Number,
    wanted: u32,
    budget: &'a CallBudget<'a>,
    claim: Claim,
    wait: Wait<'a>,
    /// The next request, which the subscriber thread may have sent.
    next: Option<NextRequest<'a>>,
    line: InLine<'a>,
}

impl Number {
    /// Sends requests until the thread has this many permits, or until the budget ends: then false.
    ///
    /// Even after its wait, a thread with the ticket sends a last request, so a wait of zero is one
    /// request, unless other threads of the client wait.
    pub(super) fn wait_for_permits(&self, wanted: u32, budget: &CallBudget) -> Result<bool> {
        // Until what the subscriber thread has sent is given back.
        let _call = self.core.watchdog.delay_shutdown();
        budget.check_interrupt(self.name())?;
        let queue = &self.core.queue;
        if queue.needs_no_ticket(&self.id) {
            let options = AcquireOptions {
                waits: !budget.is_wait_over(),
                ..AcquireOptions::default()
            };
            budget.set_unanswered_since(Some(budget.started()));
            if self.take(wanted, &options, None, budget)?.is_none() {
                return Ok(true);
            }
            budget.set_unanswered_since(None);
            if budget.is_wait_over() {
                return Ok(false);
            }
        }
        let Some(claim) = self.wait_for_ticket(budget)? else {
            return Ok(false);
        };
        let place = Some(self.core.place(&self.key));
        let mut wait = PermitWait {
            number: self,
            wanted,
            budget,
            line: InLine::new(&self.core, &self.key, place, claim.is_inherited),
            claim,
            wait: Wait::new(budget, polls()),
            next: None,
        };
        let result = wait.run();
        wait.end(matches!(result, Ok(true)));
        result
    }

    /// The right to stand in the line; `None` if the wait ends first.
    fn wait_for_ticket(&self, budget: &CallBudget) -> Result<Option<Claim>> {
        // Permits are not handed over, so their kind and their terms do not matter.
        let lock = &SingleLock::new(Arc::clone(&self.core), self.name(), &PERMITS);
        if let claim @ Some(_) = lock.enter_queue(budget.started()).claim {
            return Ok(claim);
        }
        let terms = Lease::RENEWED.terms(self.name(), self.core.watchdog_lease)?;
        wait_for_claim(LockCall::of_one(lock, terms, budget))
    }
}

impl PermitWait<'_> {
    /// Repeats the request until the thread has its permits, or until the budget ends: then false.
    fn run(&mut self) -> Result<bool> {
        let (number, budget) = (self.number, self.budget);
        budget.check_interrupt(number.name())?;
        let channel = Channel::of(&number.core, &number.key);
        repeat_until_done(budget, number.name(), || {
            self.wait.listen_if_live(channel.except_calls());
            let Some(refusal) = self.ask()? else {
                return Ok(Break(true));
            };
            if budget.is_wait_over() {
                return Ok(Break(false));
            }
            self.sleep(refusal);
            Ok(Continue(()))
        })
    }

    /// Sends a request. `None`: the permits are taken. Else what to wait for. The request keeps the
    /// place of the client in the line, unless it is the last one, and no other thread of the
    /// client waits.
    fn ask(&mut self) -> Result<Option<PermitRefusal>> {
        let (number, budget) = (self.number, self.budget);
        let (since, _) = self.claim.begin_request();
        budget.set_unanswered_since(Some(since));
        if budget.reply_deadline().is_past() {
            return Err(no_reply(&number.core, &number.key, budget));
        }
        let is_over = budget.is_wait_over();
        let waits = !is_over || self.line.is_for_others(&self.claim);
        let options = AcquireOptions {
            waits,
            place: self.line.place().filter(|_| waits || self.line.is_known),
            ..AcquireOptions::default()
        };
        self.line.is_known |= waits;
        if is_over {
            // It would enter the line.
            self.next.take_if(|next| next.request.cancel());
        }
        // Before the request, which answers the calls so far: a later message ends the next sleep.
        budget.take_message();
        let reply = number.take(self.wanted, &options, self.next.take(), budget);
        self.line.is_unanswered = matches!(reply, Err(Error::Unavailable { .. }));
        let refusal = reply?;
        // A sleep that follows is no time without a reply.
        self.claim.replied();
        budget.set_unanswered_since(None);
        self.line.is_known = refusal.is_some_and(|refusal| refusal.standing.rank.is_some());
        Ok(refusal)
    }

    /// Sleeps until a message, or until the thread asks again.
    fn sleep(&mut self, refusal: PermitRefusal) {
        let PermitRefusal { again, standing } = refusal;
        let unparker = self.budget.unparker();
        self.line.watch(standing, false, None, unparker);
        // The client may have lost its subscription meanwhile, or may have it again.
        let is_deaf = self.line.is_deaf();
        let longest = match standing.rank {
            None => rare_sleep(),
            Some(rank) if is_deaf => deaf_sleep(rank),
            Some(_) => LONGEST,
        };
        if standing.rank.is_some() && !is_deaf {
            self.next = Some(self.number.prepare(self.wanted, self.line.place()));
        }
        let request = self.next.as_ref().map(|next| &next.request);
        let channels = self.line.channels(standing);
        let again = again.unwrap_or(Duration::MAX).min(longest);
        let core = &self.number.core;
        self.wait.sleep_listening(core, &channels, request, again);
    }

    /// Ends the wait. Without permits, the client leaves the line, unless another thread of it
    /// waits for the ticket: that one makes the place its own.
    fn end(mut self, is_done: bool) {
        let Number { core, key, .. } = self.number;
        if is_done {
            self.line.granted();
            return self.claim.pass_on();
        }
        // Before the client leaves the line: the request enters it.
        if let Some(next) = self.next.take() {
            self.number.take_back(next);
            self.line.is_known = true;
        }
        let is_called = self.budget.take_message();
        if !(self.line.is_known || is_called) || self.claim.pass_on_if_wanted() {
            return;
        }
        let place = core.place(key);
        let has_left = self.line.is_known && !self.line.is_unanswered && {
            // A late copy could affect a later wait, so what gets no reply is not repeated.
            let call = script::leave_line(key, &place, false).not_repeatable();
            let budget = self.budget.to_give_up();
            core.redis.request(key, call, &budget).is_ok()
        };
        if !has_left {
            core.leave_if_called(key, &place);
        }
    }
}
