//! Waits until a key allows what a thread wants: repeats a request, and sleeps in between until a
//! message announces a change. For kinds without a holder, such as semaphores and latches.
//!
//! Threads of one client that wait for the same key are served in the order in which they came.
//! Only the first of them sends requests and listens. While the channel is subscribed, it sends a
//! request only after a message, when the time that the last reply named is over, and once in half
//! a minute, because another program can change the key without a message.

use std::time::Duration;

use crate::base::backoff::{Backoff, jitter};
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::core::Core;
use crate::error::Result;
use crate::local::{Position, Queued};
use crate::subscriber::Listener;

/// Pauses between requests while no subscription can announce a change.
const FIRST_POLL: Duration = Duration::from_millis(20);
const LONGEST_POLL: Duration = Duration::from_secs(1);

/// About how often a request is sent although no message has arrived.
const SAFETY_POLL: Duration = Duration::from_secs(30);

/// The result of one request.
#[derive(Debug)]
pub(crate) enum Step<T> {
    /// The thread has what it wants.
    Done(T),
    /// All threads that waited for the key before the request have what they want.
    DoneForAll,
    /// It is not available now. It may be after a message, or after this time.
    Wait(Option<Duration>),
}

/// The result of a wait.
#[derive(Debug)]
pub(crate) enum Waited<T> {
    Done(T),
    DoneForAll,
    /// The budget ended first.
    Over,
}

/// What one thread waits for.
#[derive(Clone, Copy)]
pub(crate) struct Wait<'a> {
    pub(crate) core: &'a Core,
    pub(crate) key: &'a LockKey,
    /// How many permits the thread wants; 0 if that has no meaning.
    pub(crate) wanted: u32,
    pub(crate) budget: &'a CallBudget<'a>,
}

impl<'a> Wait<'a> {
    /// Sends `request` until it has what the thread wants, or until the budget ends. Its argument
    /// is the number of permits that must be left over for threads of this client that have waited
    /// longer. The request is given up after the reply deadline of the budget.
    ///
    /// If no thread of this client waits for the key, the first request is sent at once. Even after
    /// its wait, a thread sends a last request, so a wait of zero is one request.
    pub(crate) fn run<T>(
        self,
        mut request: impl FnMut(u64) -> Result<Step<T>>,
    ) -> Result<Waited<T>> {
        let Self {
            core,
            key,
            wanted,
            budget,
        } = self;
        budget.check_interrupt(key.name())?;
        let mut refused = None;
        let mut listener = None;
        if !core.waiting.has(key) {
            // With a subscription before the first request, none is needed after subscribing.
            listener = core
                .subscriber
                .listen_if_live(key, None, || budget.unparker());
            match self.request(&mut request, 0, Moment::now())? {
                Step::Wait(time) => refused = Some(time),
                done => return Ok(done.into()),
            }
            if budget.is_wait_over() {
                return Ok(Waited::Over);
            }
        } else if budget.is_wait_over() {
            let ahead = core.waiting.wanted(key);
            return Ok(self.request(&mut request, ahead, Moment::now())?.into());
        }
        let queued = core.waiting.enter(key, wanted, budget.unparker());
        if queued.position() != Position::First {
            refused = None;
            listener = None;
            if let Some(waited) = self.await_first(&queued, &mut request)? {
                return Ok(waited);
            }
        }
        let mut polls = Backoff::new(FIRST_POLL, LONGEST_POLL);
        loop {
            let time = match refused.take() {
                Some(time) => time,
                None => {
                    if listener.is_none() {
                        listener = core
                            .subscriber
                            .listen_if_live(key, None, || budget.unparker());
                    }
                    let (since, waiting) = queued.begin_request(Moment::now());
                    let step = self.request(&mut request, 0, since)?;
                    queued.replied();
                    match step {
                        Step::Wait(time) => time,
                        Step::DoneForAll => {
                            queued.done_for(waiting);
                            return Ok(Waited::DoneForAll);
                        }
                        done => return Ok(done.into()),
                    }
                }
            };
            if budget.is_wait_over() {
                return Ok(Waited::Over);
            }
            let poll = match self.listen(&mut listener) {
                true => jitter(SAFETY_POLL),
                false => polls.next(),
            };
            let is_woken = budget.wait(time.map_or(poll, |time| time.min(poll)));
            let counters = &core.observer.counters;
            match is_woken {
                true => counters.wakeups_by_message.add(1),
                false => counters.wakeups_by_timeout.add(1),
            }
            budget.check_interrupt(key.name())?;
        }
    }

    /// Sends one request. The time without a reply counts from `since`.
    fn request<T>(
        self,
        request: &mut impl FnMut(u64) -> Result<Step<T>>,
        ahead: u64,
        since: Moment,
    ) -> Result<Step<T>> {
        self.budget.set_unanswered_since(Some(since));
        request(ahead)
    }

    /// Sleeps until this thread is the first one in its queue: then `None`.
    fn await_first<T>(
        self,
        queued: &Queued<'_>,
        request: &mut impl FnMut(u64) -> Result<Step<T>>,
    ) -> Result<Option<Waited<T>>> {
        let Self {
            core, key, budget, ..
        } = self;
        loop {
            let (ahead, unanswered_since) = match queued.position() {
                Position::First => {
                    // The wake-up must not end the next sleep.
                    budget.take_wake_up();
                    budget.check_interrupt(key.name())?;
                    return Ok(None);
                }
                Position::Done => return Ok(Some(Waited::DoneForAll)),
                Position::Behind {
                    ahead,
                    unanswered_since,
                } => (ahead, unanswered_since),
            };
            budget.check_interrupt(key.name())?;
            if budget.is_wait_over() {
                // What the first thread was told may be older than this wait.
                return Ok(Some(self.request(request, ahead, Moment::now())?.into()));
            }
            budget.set_unanswered_since(unanswered_since);
            if unanswered_since.is_some() && budget.reply_deadline().is_past() {
                if let Some(confirmed) = core.waiting.confirmed_replicas(key) {
                    return Err(core.redis.too_few_replicas(key, confirmed));
                }
                let cause = "timed out while another thread of this process was waiting for Redis";
                return Err(core.redis.unavailable(key, budget, cause.into()));
            }
            budget.wait(budget.reply_deadline().left());
        }
    }

    /// Listens at the server that has the key. True if the channel is subscribed.
    fn listen(self, listener: &mut Option<Listener>) -> bool {
        let Self {
            core, key, budget, ..
        } = self;
        let in_place = listener
            .take()
            .filter(|listener| core.subscriber.is_in_place(listener, key));
        let listening = listener.insert(in_place.unwrap_or_else(|| {
            let left = budget.wait_left();
            core.subscriber.listen(key, None, budget.unparker(), left)
        }));
        listening.is_live()
    }
}

impl<T> From<Step<T>> for Waited<T> {
    fn from(step: Step<T>) -> Self {
        match step {
            Step::Done(value) => Self::Done(value),
            Step::DoneForAll => Self::DoneForAll,
            Step::Wait(_) => Self::Over,
        }
    }
}
