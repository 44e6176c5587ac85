//! Waits until a number allows what a thread wants: repeats a request, and sleeps in between.
//!
//! Threads of one client that wait for the same number are served in the order in which they came.
//! Only the first of them sends requests and listens. While the channel is subscribed, it sends a
//! request only after a message, when the time that the last reply named is over, and once in half
//! a minute, because another program can change the key without a message.

use std::time::Duration;

use super::Number;
use crate::base::backoff::jitter;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::engine::local_wait::no_reply_error;
use crate::engine::wait::{Channel, Wait, polls, wait_until};
use crate::error::Result;
use crate::local::{Position, Queued};

/// About how often a request is sent although no message has arrived.
const SAFETY_POLL: Duration = Duration::from_secs(30);

/// The result of one request.
#[derive(Debug)]
pub(super) enum Step {
    /// The thread has what it wants.
    Done,
    /// All threads that waited for the number before the request have what they want.
    DoneForAll,
    /// It is not available now. It may be after a message, or after this time.
    Wait(Option<Duration>),
}

impl Step {
    fn is_done(&self) -> bool {
        !matches!(self, Self::Wait(_))
    }
}

impl Number {
    /// Sends `request` until it has what the thread wants, or until the budget ends: then false.
    /// The thread wants this many permits; 0 if that has no meaning.
    ///
    /// The argument of `request` is the number of permits that must be left over for threads of
    /// this client that have waited longer. The request is given up after the reply deadline of the
    /// budget.
    ///
    /// If no thread of this client waits for the number, the first request is sent at once. Even
    /// after its wait, a thread sends a last request, so a wait of zero is one request.
    pub(super) fn request_until_done<'a>(
        &'a self,
        wanted: u32,
        budget: &'a CallBudget<'a>,
        request: impl Fn(u64) -> Result<Step>,
    ) -> Result<bool> {
        budget.check_interrupt(self.name())?;
        let waiting = &self.core.waiting;
        let is_first = !waiting.has(&self.key);
        // The time without a reply counts from the second argument.
        let request = |ahead, since| {
            budget.set_unanswered_since(Some(since));
            request(ahead)
        };
        if budget.is_wait_over() {
            let ahead = if is_first {
                0
            } else {
                waiting.wanted(&self.key)
            };
            return Ok(request(ahead, Moment::now())?.is_done());
        }
        let (mut wait, mut refused) = (Wait::new(budget, polls()), None);
        if is_first {
            wait.listen_if_live(Channel::of(&self.core, &self.key));
            let step = request(0, Moment::now())?;
            if step.is_done() || budget.is_wait_over() {
                return Ok(step.is_done());
            }
            refused = Some(step);
        }
        let queued = waiting.enter(&self.key, wanted, budget.unparker());
        if queued.position() != Position::First {
            refused = None;
            wait.stop_listening();
            if let Some(is_done) = self.await_first(&queued, budget, request)? {
                return Ok(is_done);
            }
        }
        self.wait_as_first(&queued, (wait, refused), budget, request)
    }

    /// Repeats the request of the first thread in the queue. It may be `refused` already.
    fn wait_as_first<'a>(
        &'a self,
        queued: &Queued<'_>,
        (mut wait, mut refused): (Wait<'a>, Option<Step>),
        budget: &CallBudget,
        request: impl Fn(u64, Moment) -> Result<Step>,
    ) -> Result<bool> {
        let channel = Channel::of(&self.core, &self.key);
        wait_until(budget, self.name(), || {
            let step = match refused.take() {
                Some(step) => step,
                None => {
                    wait.listen_if_live(channel);
                    let (since, waiting) = queued.begin_request(Moment::now());
                    let step = request(0, since)?;
                    queued.replied();
                    if matches!(step, Step::DoneForAll) {
                        queued.done_for(waiting);
                    }
                    step
                }
            };
            let Step::Wait(time) = step else {
                return Ok(Some(true));
            };
            if budget.is_wait_over() {
                return Ok(Some(false));
            }
            let is_live = wait.listen(&[channel]) > 0;
            let longest = time.unwrap_or(Duration::MAX).min(jitter(SAFETY_POLL));
            wait.sleep_counted(&self.core, is_live, longest);
            Ok(None)
        })
    }

    /// Sleeps until this thread is the first one in its queue: then `None`. Otherwise returns
    /// whether the thread has what it wants.
    fn await_first(
        &self,
        queued: &Queued<'_>,
        budget: &CallBudget,
        request: impl Fn(u64, Moment) -> Result<Step>,
    ) -> Result<Option<bool>> {
        loop {
            let position = queued.position();
            if position == Position::Done {
                return Ok(Some(true));
            }
            budget.check_interrupt(self.name())?;
            let Position::Behind {
                ahead,
                unanswered_since,
            } = position
            else {
                // The wake-up must not end the next sleep.
                budget.take_wake_up();
                return Ok(None);
            };
            if budget.is_wait_over() {
                // What the first thread was told may be older than this wait.
                return Ok(Some(request(ahead, Moment::now())?.is_done()));
            }
            budget.set_unanswered_since(unanswered_since);
            if unanswered_since.is_some() && budget.reply_deadline().is_past() {
                let confirmed = self.core.waiting.confirmed_replicas(&self.key);
                return Err(no_reply_error(&self.core, &self.key, confirmed, budget));
            }
            budget.wait(budget.reply_deadline().left());
        }
    }
}
