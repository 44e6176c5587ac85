//! Waits until a number allows what a thread wants: repeats a request, and sleeps in between.
//!
//! Threads of one client that wait for the same number are served in the order in which they came.
//! Until a request is refused, up to 32 of them each send one. Then only the first of them sends
//! requests and listens. For a latch, it listens to the channel. For a semaphore, it has the
//! place of the client in the line (`lua/shared/permit_line.lua`), and sleeps until the client is
//! called. While it hears of changes, it sends a request only after a message, and when the time
//! that the last reply named is over. The watchdog looks after its line. In no line, it also sends
//! one within half a minute, because another program can change the key without a message.
//!
//! A sleeping thread may get its permits from a thread of the same client that releases as many
//! (`local/wait_queue.rs`). Redis need not know: the permits stay taken. The next first thread
//! makes the place in the line its own.

use std::sync::Arc;
use std::time::Duration;

use super::{Number, Ready};
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::engine::acquire::line::{LONGEST, deaf_sleep, rare_sleep};
use crate::engine::local_wait::no_reply_error;
use crate::engine::wait::{Channel, Wait, polls, wait_until};
use crate::error::{Error, Result};
use crate::local::{Leaving, Position, Queued};
use crate::protocol::Ask;
use crate::protocol::message::is_deaf;
use crate::script;
use crate::watchdog::{LineWait, Refused};

/// What a thread that was refused waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    /// It asks again after this time, even without a message.
    pub(super) again: Option<Duration>,
    /// How many clients are before this one in the line; `None` if it is in no line.
    pub(super) rank: Option<u32>,
    /// A moment before the request.
    pub(super) asked: Moment,
    /// A client in the line also listens to the channel.
    pub(super) listens: bool,
}

/// The wait of one thread.
struct NumberWait<'a> {
    number: &'a Number,
    /// How many permits the thread wants; 0 for a latch, which has no line.
    wanted: u32,
    budget: &'a CallBudget<'a>,
    queued: Queued<'a>,
    wait: Wait<'a>,
    /// The next request.
    ready: Option<Ready<'a>>,
    /// The last request had no reply.
    is_unanswered: bool,
    /// While the client has a place in the line.
    line_wait: Option<LineWait<'a>>,
}

impl Number {
    /// Sends requests until the thread has what it wants, or until the budget ends: then false.
    /// The thread wants this many permits; with 0, that the count of a latch is zero.
    ///
    /// A request is given up after the reply deadline of the budget.
    ///
    /// If no other client is known to wait, the first threads of the queue send a request at once,
    /// without a place in the line. Even after its wait, a thread sends a last request, so a wait
    /// of zero is one request.
    pub(super) fn wait_for<'a>(&'a self, wanted: u32, budget: &'a CallBudget<'a>) -> Result<bool> {
        // Until what the subscriber thread has sent is given back.
        let _call = self.core.watchdog.begin_call();
        budget.check_interrupt(self.name())?;
        if budget.is_wait_over() {
            let left_over = self.queue.wanted();
            return self.ask_last(wanted, left_over, budget);
        }
        let mut wait = NumberWait {
            number: self,
            wanted,
            budget,
            queued: self.queue.enter(wanted),
            wait: Wait::new(budget, polls()),
            ready: None,
            is_unanswered: false,
            line_wait: None,
        };
        let result = match wait.await_turn().transpose() {
            Some(result) => result,
            None => wait.wait_as_first(),
        };
        // Another thread may have handed its permits over since the last request.
        let is_done = matches!(result, Ok(true)) || wait.queued.stop_sleeping();
        wait.end(is_done);
        if is_done { Ok(true) } else { result }
    }

    /// One request, which may be ready. `None` if the thread has what it wants. The time without a
    /// reply counts from `since`.
    fn ask<'a>(
        &'a self,
        wanted: u32,
        ask: Ask<'_>,
        ready: Option<Ready<'a>>,
        since: Moment,
        budget: &CallBudget,
    ) -> Result<Option<Refusal>> {
        budget.set_unanswered_since(Some(since));
        if wanted > 0 {
            return self.take(wanted, ask, ready, budget);
        }
        let count = self.count_within(budget)?;
        Ok((count > 0).then_some(Refusal {
            again: None,
            rank: None,
            asked: since,
            listens: true,
        }))
    }

    /// The request of a thread that does not wait any more. It leaves permits to other threads.
    fn ask_last(&self, wanted: u32, left_over: u64, budget: &CallBudget) -> Result<bool> {
        let ask = Ask {
            left_over,
            ..Ask::default()
        };
        let refusal = self.ask(wanted, ask, None, Moment::now(), budget)?;
        Ok(refusal.is_none())
    }
}

impl<'a> NumberWait<'a> {
    /// Waits until only this thread may send requests: then `None`. Until then it may send requests
    /// without a place, as other threads do. Returns whether the thread has what it wants.
    fn await_turn(&self) -> Result<Option<bool>> {
        let (number, wanted, budget) = (self.number, self.wanted, self.budget);
        let queued = &self.queued;
        let mut is_ready_to_sleep = false;
        wait_until(budget, number.name(), || {
            let now = Moment::now();
            let (ahead, unanswered_since) = match queued.position(now) {
                Position::Done => return Ok(Some(Some(true))),
                Position::First => {
                    // The wake-up must not end the next sleep.
                    budget.take_wake_up();
                    return Ok(Some(None));
                }
                Position::AmongFirst => {
                    is_ready_to_sleep = false;
                    return Ok(self.ask_among_first(now)?.map(Some));
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
                return Ok(None);
            }
            if budget.is_wait_over() {
                // What the first thread was told may be older than this wait.
                let is_done = queued.stop_sleeping() || number.ask_last(wanted, ahead, budget)?;
                return Ok(Some(Some(is_done)));
            }
            budget.set_unanswered_since(unanswered_since);
            if unanswered_since.is_some() && budget.reply_deadline().is_past() {
                let confirmed = number.queue.confirmed_replicas();
                return Err(no_reply_error(&number.core, &number.key, confirmed, budget));
            }
            budget.wait(budget.reply_deadline().left());
            Ok(None)
        })
    }

    /// A request without a place, as other threads send one. `None` if the thread waits further.
    fn ask_among_first(&self, now: Moment) -> Result<Option<bool>> {
        let ask = Ask {
            waits: true,
            ..Ask::default()
        };
        let asked = self.number.ask(self.wanted, ask, None, now, self.budget);
        let is_done = asked?.is_none();
        self.queued.replied(is_done);
        Ok((is_done || self.budget.is_wait_over()).then_some(is_done))
    }

    /// Repeats the request of the first thread in the queue.
    fn wait_as_first(&mut self) -> Result<bool> {
        let (number, budget) = (self.number, self.budget);
        let channel = Channel::of(&number.core, &number.key);
        let place = number.core.place(&number.key);
        let mut is_refused = false;
        wait_until(budget, number.name(), || {
            if self.queued.position(Moment::now()) == Position::Done {
                return Ok(Some(true));
            }
            self.wait.listen_if_live(match self.wanted {
                0 => channel,
                _ => channel.of_others(),
            });
            // The client may have lost its subscription meanwhile, or may have it again.
            let in_line = number.core.subscriber.in_line(&number.key, &place);
            let Some(refusal) = self.ask_as_first(&in_line)? else {
                if !is_refused && self.wanted > 0 {
                    self.queued.granted_at_once();
                }
                return Ok(Some(true));
            };
            is_refused = true;
            if budget.is_wait_over() {
                return Ok(Some(false));
            }
            self.queued.sleeps(budget.unparker());
            self.sleep(channel, &in_line, refusal);
            Ok(None)
        })
    }

    /// A request of the first thread. It keeps the place of the client in the line, unless it is
    /// the last one and no other thread waits, which would make the place its own.
    fn ask_as_first(&mut self, place: &str) -> Result<Option<Refusal>> {
        let (number, budget, queued) = (self.number, self.budget, &self.queued);
        let waits = !budget.is_wait_over() || queued.others_wait();
        let is_kept = |ready: &Ready<'_>| waits || !ready.request.cancel();
        let ready = self.ready.take().filter(is_kept);
        let waits = waits || ready.is_some();
        let ask = Ask {
            waits,
            place: Some(place).filter(|_| waits || queued.has_place()),
            ..Ask::default()
        };
        queued.set_place(ask.place.is_some());
        // This request answers the calls so far.
        budget.take_message();
        let (since, waiting) = queued.begin_request(Moment::now());
        let reply = number.ask(self.wanted, ask, ready, since, budget);
        if let Err(Error::Unavailable { .. }) = reply {
            // A further request would not be executed, either.
            queued.set_place(false);
            self.is_unanswered = true;
        }
        let refusal = reply?;
        // A sleep that follows is no time without a reply.
        budget.set_unanswered_since(None);
        let is_done = refusal.is_none();
        queued.replied(is_done);
        queued.set_place(waits && !is_done);
        if is_done && self.wanted == 0 {
            // All threads that waited before the request have what they want.
            queued.done_for(waiting);
        }
        Ok(refusal)
    }

    /// Sleeps until a message, or until the thread asks again.
    fn sleep(&mut self, channel: Channel<'a>, place: &Arc<str>, refusal: Refusal) {
        let Number { core, key, .. } = self.number;
        let is_deaf = is_deaf(place);
        let channels = [channel.called(refusal.asked), channel.of_others(), channel];
        let (channels, longest) = match refusal.rank {
            None => (&channels[2..], rare_sleep()),
            Some(rank) => {
                let longest = if is_deaf { deaf_sleep(rank) } else { LONGEST };
                (&channels[..1 + usize::from(refusal.listens)], longest)
            }
        };
        let unparker = self.budget.unparker();
        self.line_wait = refusal.rank.map(|rank| {
            let refused = Refused {
                rank,
                listens: refusal.listens,
                has_lease: false,
                pending: None,
                asked: refusal.asked,
            };
            core.watchdog.wait_in_line(key, place, unparker, refused)
        });
        if refusal.rank.is_some() && !is_deaf {
            self.ready = self.number.prepare(self.wanted, place);
        }
        let request = self.ready.as_ref().map(|ready| &ready.request);
        let again = refusal.again.unwrap_or(Duration::MAX).min(longest);
        self.wait.sleep_listening(core, channels, request, again);
    }

    /// Ends the wait. The last thread of the queue leaves the line.
    fn end(mut self, is_done: bool) {
        let Number { core, key, .. } = self.number;
        if let Some(ready) = self.ready.take() {
            self.number.take_back(ready);
        }
        if let Some(wait) = self.line_wait.take().filter(|_| is_done) {
            wait.granted();
        }
        // A latch has no line.
        if self.wanted == 0 {
            return;
        }
        let leaves_if_called = match self.queued.leave() {
            Leaving::AfterLine => {
                // A late copy could affect a later wait, so what gets no reply is not repeated.
                let call = script::leave_line(key, &core.place(key), false).not_repeatable();
                let budget = self.budget.to_give_up();
                core.redis.request(key, call, &budget).is_err()
            }
            Leaving::Done { others_wait } if !is_done => {
                self.budget.take_message() || self.is_unanswered && !others_wait
            }
            Leaving::Done { .. } | Leaving::PlaceStays => false,
        };
        if leaves_if_called {
            core.leave_if_called(key, &core.place(key));
        }
    }
}
