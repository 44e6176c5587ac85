//! Waits until a number allows what a thread wants: repeats a request, and sleeps in between.
//!
//! Threads of one client that wait for the same number are served in the order in which they came.
//! Until a request is refused, up to 32 of them each send one. Then only the first of them sends
//! requests and listens. For a latch, it listens to the channel. For a semaphore, it has the
//! place of the client in the line (`lua/shared/permit_line.lua`), and sleeps until the client is
//! called. While it hears of changes, it sends a request only after a message, when the time that
//! the last reply named is over, and once in half a minute, because another program can change the
//! key without a message.
//!
//! A sleeping thread may get its permits from a thread of the same client that releases as many
//! (`local/wait_queue.rs`). Redis need not know: the permits stay taken. The next first thread makes
//! the place in the line its own.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use super::{Number, Ready};
use crate::base::backoff::jitter;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::engine::acquire::line::{LONGEST, Polls};
use crate::engine::local_wait::no_reply_error;
use crate::engine::wait::{Channel, Wait, polls, wait_until};
use crate::error::{Error, Result};
use crate::local::{Leaving, Position, Queued};
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
    /// If the client is in a line.
    pub(super) in_line: Option<Rank>,
}

/// The place of a client in a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rank {
    /// How many clients are before it.
    pub(super) rank: u32,
    /// A moment before the request.
    pub(super) asked: Moment,
    /// The client also listens to the channel.
    pub(super) listens: bool,
}

impl Step {
    fn is_done(&self) -> bool {
        !matches!(self, Self::Wait(_))
    }
}

/// What the wait of a client in a line knows.
struct InLine<'a> {
    /// How many permits the thread wants.
    wanted: u32,
    /// The place of the client, which a thread that finds free permits does not need.
    place: OnceCell<Arc<str>>,
    /// The next request.
    ready: Option<Ready<'a>>,
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
    /// If no other client is known to wait, the first threads of the queue send a request at once,
    /// without a place in the line. Even after its wait, a thread sends a last request, so a wait of
    /// zero is one request.
    pub(super) fn request_until_done<'a>(
        &'a self,
        wanted: u32,
        budget: &'a CallBudget<'a>,
        request: impl Fn(Ask<'_>, Option<Ready<'a>>) -> Result<Step>,
    ) -> Result<bool> {
        // Until what the subscriber thread has sent is given back.
        let _call = self.core.watchdog.begin_call();
        budget.check_interrupt(self.name())?;
        // The time without a reply counts from the second argument.
        let request = |ask: Ask<'_>, ready, since| {
            budget.set_unanswered_since(Some(since));
            request(ask, ready)
        };
        let request_now = |ask: Ask<'_>, now| request(ask, None, now);
        if budget.is_wait_over() {
            let ask = Ask {
                left_over: self.queue.wanted(),
                ..Ask::default()
            };
            return Ok(request_now(ask, Moment::now())?.is_done());
        }
        let queued = self.queue.enter(wanted);
        let mut line = (wanted > 0).then(|| InLine {
            wanted,
            place: OnceCell::new(),
            ready: None,
            is_unanswered: false,
            polls: Polls::default(),
        });
        let result = self.await_turn(&queued, budget, request_now).transpose();
        let as_first = || self.wait_as_first(&queued, &mut line, budget, request);
        let result = result.unwrap_or_else(as_first);
        let is_done = match result {
            Ok(true) => true,
            // Another thread has handed its permits over since the last request.
            _ => queued.stop_sleeping(),
        };
        if let Some(line) = line {
            self.end_line(line, &queued, is_done, budget);
        }
        if is_done { Ok(true) } else { result }
    }

    /// Waits until only this thread may send requests: then `None`. Until then it may send requests
    /// without a place, as other threads do. Returns whether the thread has what it wants.
    fn await_turn(
        &self,
        queued: &Queued<'_>,
        budget: &CallBudget,
        request: impl Fn(Ask<'_>, Moment) -> Result<Step>,
    ) -> Result<Option<bool>> {
        let mut is_ready_to_sleep = false;
        loop {
            budget.check_interrupt(self.name())?;
            let now = Moment::now();
            let (ahead, unanswered_since) = match queued.position(now) {
                Position::Done => return Ok(Some(true)),
                Position::First => {
                    // The wake-up must not end the next sleep.
                    budget.take_wake_up();
                    return Ok(None);
                }
                Position::AmongFirst => {
                    is_ready_to_sleep = false;
                    let ask = Ask {
                        waits: true,
                        ..Ask::default()
                    };
                    let is_done = request(ask, now)?.is_done();
                    queued.replied(is_done);
                    if is_done {
                        return Ok(Some(true));
                    }
                    if budget.is_wait_over() {
                        return Ok(Some(false));
                    }
                    continue;
                }
                Position::Behind {
                    ahead,
                    unanswered_since,
                } => (ahead, unanswered_since),
            };
            if !is_ready_to_sleep {
                // A change of its position before this did not wake the thread.
                queued.sleeps(budget.unparker());
                is_ready_to_sleep = true;
                continue;
            }
            if budget.is_wait_over() {
                if queued.stop_sleeping() {
                    return Ok(Some(true));
                }
                // What the first thread was told may be older than this wait.
                let ask = Ask {
                    left_over: ahead,
                    ..Ask::default()
                };
                return Ok(Some(request(ask, now)?.is_done()));
            }
            budget.set_unanswered_since(unanswered_since);
            if unanswered_since.is_some() && budget.reply_deadline().is_past() {
                let confirmed = self.queue.confirmed_replicas();
                return Err(no_reply_error(&self.core, &self.key, confirmed, budget));
            }
            budget.wait(budget.reply_deadline().left());
        }
    }

    /// Repeats the request of the first thread in the queue.
    fn wait_as_first<'a>(
        &'a self,
        queued: &Queued<'_>,
        line: &mut Option<InLine<'a>>,
        budget: &'a CallBudget<'a>,
        request: impl Fn(Ask<'_>, Option<Ready<'a>>, Moment) -> Result<Step>,
    ) -> Result<bool> {
        let mut wait = Wait::new(budget, polls());
        let place = line.as_ref().map(|line| Arc::clone(self.place(line)));
        let channel = Channel::of(&self.core, &self.key);
        let heard = if line.is_some() {
            channel.of_others()
        } else {
            channel
        };
        let mut is_refused = false;
        wait_until(budget, self.name(), || {
            if queued.position(Moment::now()) == Position::Done {
                return Ok(Some(true));
            }
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
                ask.place = place.as_deref().filter(|_| ask.waits || queued.has_place());
                queued.set_place(ask.place.is_some());
                // This request answers the calls so far.
                budget.take_message();
            }
            let (since, waiting) = queued.begin_request(Moment::now());
            let step = request(ask, ready, since).inspect_err(|error| {
                if let (Error::Unavailable { .. }, Some(line)) = (error, line.as_mut()) {
                    // A further request would not be executed, either.
                    queued.set_place(false);
                    line.is_unanswered = true;
                }
            })?;
            queued.replied(step.is_done());
            if line.is_some() {
                queued.set_place(ask.waits && !step.is_done());
                is_refused |= !step.is_done();
            }
            let refusal = match step {
                Step::Wait(refusal) => refusal,
                Step::Done => {
                    if !is_refused {
                        queued.granted_at_once();
                    }
                    return Ok(Some(true));
                }
                Step::DoneForAll => {
                    queued.done_for(waiting);
                    return Ok(Some(true));
                }
            };
            if budget.is_wait_over() {
                return Ok(Some(false));
            }
            queued.sleeps(budget.unparker());
            self.sleep(&mut wait, refusal, line.as_mut());
            Ok(None)
        })
    }

    /// Sleeps until a message, or until the thread asks again.
    fn sleep<'a>(&'a self, wait: &mut Wait<'a>, refusal: Refusal, line: Option<&mut InLine<'a>>) {
        let channel = Channel::of(&self.core, &self.key);
        let again = refusal.again.unwrap_or(Duration::MAX);
        let (Some(place), Some(line)) = (refusal.in_line, line) else {
            let is_live = wait.listen(&[channel]) > 0;
            wait.sleep_counted(&self.core, is_live, again.min(jitter(LONGEST)));
            return;
        };
        let called = Channel {
            in_line_since: Some(place.asked),
            ..channel
        };
        let both = [called, channel.of_others()];
        let channels = if place.listens { &both[..] } else { &both[..1] };
        let is_live = wait.listen(channels) == channels.len();
        line.ready = self.prepare(line.wanted, self.place(line));
        if let Some(ready) = &line.ready {
            let prepare = |&channel: &Channel<'a>| wait.prepare(channel, &ready.request);
            channels.iter().for_each(prepare);
        }
        let longest = line
            .polls
            .next(place.rank, jitter(LONGEST), fastrand::f32());
        if !wait.sleep_counted(&self.core, is_live, again.min(longest)) {
            line.polls.elapsed(longest);
        }
    }

    fn place<'l>(&self, line: &'l InLine<'_>) -> &'l Arc<str> {
        line.place.get_or_init(|| self.core.place(&self.key))
    }

    /// Ends the wait of a thread. The last thread of the queue leaves the line.
    fn end_line(
        &self,
        mut line: InLine<'_>,
        queued: &Queued<'_>,
        is_done: bool,
        budget: &CallBudget,
    ) {
        if let Some(ready) = line.ready.take() {
            self.take_back(ready);
        }
        match queued.leave() {
            Leaving::AfterLine => {
                // A late copy could affect a later wait, so what gets no reply is not repeated.
                let call = script::leave_line(&self.key, self.place(&line), false).not_repeatable();
                let redis = &self.core.redis;
                let left = redis.request(&self.key, call, &budget.to_give_up());
                if left.is_err() {
                    self.core.leave_if_called(&self.key, self.place(&line));
                }
            }
            Leaving::Done { others_wait } if !is_done => {
                if budget.take_message() || line.is_unanswered && !others_wait {
                    self.core.leave_if_called(&self.key, self.place(&line));
                }
            }
            Leaving::Done { .. } | Leaving::PlaceStays => {}
        }
    }
}
