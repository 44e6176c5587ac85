//! Waits until a number allows what a thread wants: repeats a request, and sleeps in between.
//!
//! Threads of one client that wait for the same number are served in the order in which they came.
//! Only the first of them sends requests and listens. For a latch, it listens to the channel. For a
//! semaphore, it has the place of the client in the line (`lua/shared/permit_line.lua`), and sleeps
//! until the client is called. While it hears of changes, it sends a request only after a message,
//! when the time that the last reply named is over, and once in half a minute, because another
//! program can change the key without a message.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Number, Ready};
use crate::base::backoff::jitter;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::engine::acquire::line::{LONGEST, Polls};
use crate::engine::local_wait::no_reply_error;
use crate::engine::wait::{Channel, Wait, polls, wait_until};
use crate::error::{Error, Result};
use crate::local::{Position, Queued};
use crate::protocol::Ask;
use crate::script;

/// The result of one request.
#[derive(Debug)]
pub(super) enum Step {
    /// The thread has what it wants.
    Done,
    /// All threads that waited for the number before the request have what they want.
    DoneForAll,
    /// It is not available now.
    Wait(Refusal),
}

/// What a thread that was refused waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusal {
    /// It asks again after this time, even without a message.
    pub(super) again: Option<Duration>,
    /// If the client is in a line: how many clients are before it, and a moment before the request.
    pub(super) in_line: Option<(u32, Moment)>,
    /// A client in a line also listens to the channel.
    pub(super) listens: bool,
}

impl Step {
    fn is_done(&self) -> bool {
        !matches!(self, Self::Wait(_))
    }
}

/// What the wait of a client in a line knows.
struct InLine<'a, 'p> {
    /// How many permits the thread wants.
    wanted: u32,
    /// The place of the client.
    place: &'p str,
    /// The next request.
    ready: Option<Ready<'a>>,
    /// The client may have its place.
    is_entered: bool,
    /// The last request had no reply.
    is_unanswered: bool,
    polls: Polls,
}

impl Number {
    /// Sends `request` until it has what the thread wants, or until the budget ends: then false.
    /// The thread wants this many permits; 0 for a latch, which has no line.
    ///
    /// The request is given up after the reply deadline of the budget.
    ///
    /// If no thread of this client waits for the number, and no other client is known to wait, the
    /// first request is sent at once, without a place in the line. Even after its wait, a thread
    /// sends a last request, so a wait of zero is one request.
    pub(super) fn request_until_done<'a>(
        &'a self,
        wanted: u32,
        budget: &'a CallBudget<'a>,
        request: impl Fn(Ask<'_>, Option<Ready<'a>>) -> Result<Step>,
    ) -> Result<bool> {
        // Until what the subscriber thread has sent is given back.
        let _call = self.core.watchdog.begin_call();
        budget.check_interrupt(self.name())?;
        let waiting = &self.core.waiting;
        let is_first = !waiting.has(&self.key);
        // The time without a reply counts from the second argument.
        let request = |ask: Ask<'_>, ready, since| {
            budget.set_unanswered_since(Some(since));
            request(ask, ready)
        };
        let request_now = |ask: Ask<'_>| request(ask, None, Moment::now());
        if budget.is_wait_over() {
            let left_over = if is_first {
                0
            } else {
                waiting.wanted(&self.key)
            };
            let ask = Ask {
                left_over,
                ..Ask::default()
            };
            return Ok(request_now(ask)?.is_done());
        }
        let has_line = wanted > 0;
        let (mut wait, mut refused) = (Wait::new(budget, polls()), None);
        if is_first && !self.is_contended.load(Ordering::Relaxed) {
            if !has_line {
                wait.listen_if_live(Channel::of(&self.core, &self.key));
            }
            let ask = Ask {
                waits: true,
                ..Ask::default()
            };
            let step = request_now(ask)?;
            if step.is_done() || budget.is_wait_over() {
                return Ok(step.is_done());
            }
            refused = Some(step).filter(|_| !has_line);
        }
        let queued = waiting.enter(&self.key, wanted, budget.unparker());
        if queued.position() != Position::First {
            refused = None;
            wait.stop_listening();
            if let Some(is_done) = self.await_first(&queued, budget, request_now)? {
                return Ok(is_done);
            }
        }
        let place = has_line.then(|| self.core.place(&self.key));
        let mut line = place.as_deref().map(|place| InLine {
            wanted,
            place,
            ready: None,
            is_entered: false,
            is_unanswered: false,
            polls: Polls::default(),
        });
        let result = self.wait_as_first(&queued, (wait, refused), &mut line, budget, request);
        if let Some(line) = line
            && !matches!(result, Ok(true))
        {
            self.leave_line(line, budget);
        }
        result
    }

    /// Repeats the request of the first thread in the queue. It may be `refused` already.
    fn wait_as_first<'a>(
        &'a self,
        queued: &Queued<'_>,
        (mut wait, mut refused): (Wait<'a>, Option<Step>),
        line: &mut Option<InLine<'a, '_>>,
        budget: &'a CallBudget<'a>,
        request: impl Fn(Ask<'_>, Option<Ready<'a>>, Moment) -> Result<Step>,
    ) -> Result<bool> {
        let channel = Channel::of(&self.core, &self.key);
        let heard = if line.is_some() {
            channel.of_others()
        } else {
            channel
        };
        let mut is_contended = false;
        wait_until(budget, self.name(), || {
            let step = match refused.take() {
                Some(step) => step,
                None => {
                    let mut ask = Ask {
                        waits: !budget.is_wait_over(),
                        ..Ask::default()
                    };
                    let mut ready = None;
                    wait.listen_if_live(heard);
                    if let Some(line) = line {
                        // The last request leaves the line.
                        let is_kept = |ready: &Ready<'_>| ask.waits || !ready.request.cancel();
                        ready = line.ready.take().filter(is_kept);
                        ask.waits |= ready.is_some();
                        ask.place = Some(line.place).filter(|_| ask.waits || line.is_entered);
                        line.is_entered |= ask.waits;
                        // This request answers the calls so far.
                        budget.take_message();
                    }
                    let (since, waiting) = queued.begin_request(Moment::now());
                    let step = request(ask, ready, since).inspect_err(|error| {
                        if let (Error::Unavailable { .. }, Some(line)) = (error, line.as_mut()) {
                            // A further request would not be executed, either.
                            (line.is_entered, line.is_unanswered) = (false, true);
                        }
                    })?;
                    queued.replied();
                    if let Some(line) = line {
                        line.is_entered &= ask.waits && !step.is_done();
                        is_contended |= !step.is_done();
                        self.is_contended.store(is_contended, Ordering::Relaxed);
                    }
                    if matches!(step, Step::DoneForAll) {
                        queued.done_for(waiting);
                    }
                    step
                }
            };
            let Step::Wait(refusal) = step else {
                return Ok(Some(true));
            };
            if budget.is_wait_over() {
                return Ok(Some(false));
            }
            self.sleep(&mut wait, refusal, line.as_mut());
            Ok(None)
        })
    }

    /// Sleeps until a message, or until the thread asks again.
    fn sleep<'a>(
        &'a self,
        wait: &mut Wait<'a>,
        refusal: Refusal,
        line: Option<&mut InLine<'a, '_>>,
    ) {
        let channel = Channel::of(&self.core, &self.key);
        let again = refusal.again.unwrap_or(Duration::MAX);
        let (Some((rank, asked)), Some(line)) = (refusal.in_line, line) else {
            let is_live = wait.listen(&[channel]) > 0;
            wait.sleep_counted(&self.core, is_live, again.min(jitter(LONGEST)));
            return;
        };
        let called = Channel {
            in_line_since: Some(asked),
            ..channel
        };
        let both = [called, channel.of_others()];
        let channels = if refusal.listens {
            &both[..]
        } else {
            &both[..1]
        };
        let is_live = wait.listen(channels) == channels.len();
        line.ready = self.prepare(line.wanted, line.place);
        if let Some(ready) = &line.ready {
            let prepare = |&channel: &Channel<'a>| wait.prepare(channel, &ready.request);
            channels.iter().for_each(prepare);
        }
        let longest = line.polls.next(rank, jitter(LONGEST), fastrand::f32());
        if !wait.sleep_counted(&self.core, is_live, again.min(longest)) {
            line.polls.elapsed(longest);
        }
    }

    /// After a wait without the permits.
    fn leave_line(&self, mut line: InLine<'_, '_>, budget: &CallBudget) {
        if let Some(ready) = line.ready.take() {
            self.take_back(ready);
        }
        if line.is_entered {
            // A late copy could affect a later wait, so what gets no reply is not repeated.
            let call = script::leave_line(&self.key, line.place, false).not_repeatable();
            let redis = &self.core.redis;
            let _ = redis.request(&self.key, call, &budget.to_give_up());
            return;
        }
        // The next thread of this client makes the place its own.
        let others_wait = || self.core.waiting.wanted(&self.key) > u64::from(line.wanted);
        if budget.take_message() || line.is_unanswered && !others_wait() {
            self.core.leave_if_called(&self.key, line.place);
        }
    }

    /// Sleeps until this thread is the first one in its queue: then `None`. Otherwise returns
    /// whether the thread has what it wants.
    fn await_first(
        &self,
        queued: &Queued<'_>,
        budget: &CallBudget,
        request: impl Fn(Ask<'_>) -> Result<Step>,
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
                let ask = Ask {
                    left_over: ahead,
                    ..Ask::default()
                };
                return Ok(Some(request(ask)?.is_done()));
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
