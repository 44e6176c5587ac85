//! The loop of every call that waits for other clients, and its sleeps.
//!
//! A sleep ends by a message, by the next poll, at the end of the call's wait, by an interrupt, or
//! by a shutdown. A wake-up between two sleeps ends the next one. So no message is missed that
//! arrives after the channel was subscribed, even while the thread sends a request.

use std::ops::ControlFlow::{self, Break};
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Backoff, CallBudget, LockKey, Moment};
use crate::core::Core;
use crate::error::Result;
use crate::protocol::message::Filter;
use crate::request::Prepared;
use crate::subscriber::Listener;

/// Pauses between requests while no subscription can announce a change.
pub(super) const FIRST_POLL: Duration = Duration::from_millis(20);
const LONGEST_POLL: Duration = Duration::from_secs(1);

/// Repeats `round` until it breaks with a result. Fails if the call is interrupted after a round
/// without one.
pub(crate) fn repeat_until_done<T>(
    budget: &CallBudget,
    name: &str,
    mut round: impl FnMut() -> Result<ControlFlow<T>>,
) -> Result<T> {
    loop {
        if let Break(result) = round()? {
            return Ok(result);
        }
        budget.check_interrupt(name)?;
    }
}

/// The pauses of most calls: they double up to the longest.
pub(super) fn polls() -> Backoff {
    Backoff::new(FIRST_POLL, LONGEST_POLL)
}

/// A channel on which a thread listens, and which of its messages wake the thread.
#[derive(Clone, Copy)]
pub(crate) struct Channel<'a> {
    pub(crate) core: &'a Core,
    pub(crate) key: &'a LockKey,
    /// Which messages wake the thread.
    pub(crate) filter: Filter,
    /// Set if the thread listens for calls of its client in the line of the lock, and not to the
    /// channel of the key: a moment before its last request.
    pub(crate) in_line_since: Option<Moment>,
}

/// Where one call listens, and for how long it sleeps between its rounds.
pub(crate) struct Wait<'a> {
    budget: &'a CallBudget<'a>,
    polls: Backoff,
    listeners: Vec<(Channel<'a>, Listener)>,
}

impl<'a> Wait<'a> {
    /// Without a subscription, the call sends a request after each of these `polls`.
    pub(crate) fn new(budget: &'a CallBudget<'a>, polls: Backoff) -> Self {
        Self {
            budget,
            polls,
            listeners: Vec::new(),
        }
    }

    /// Listens to this channel, too, if it is subscribed already. With a subscription before the
    /// first request, no second request is needed after subscribing.
    pub(crate) fn listen_if_live(&mut self, channel: Channel<'a>) {
        let subscriber = &channel.core.subscriber;
        if subscriber.is_live(channel.key, &channel.name()) {
            self.add(channel, Some(Moment::now()));
        }
    }

    fn add(&mut self, channel: Channel<'a>, since: Option<Moment>) {
        if self.listener(channel).is_none() {
            let (subscriber, unparker) = (&channel.core.subscriber, self.budget.unparker());
            let name = (channel.key, &channel.name());
            let listener = subscriber.listen(name, channel.filter, unparker, since);
            self.listeners.push((channel, listener));
        }
    }

    /// Listens to these channels, and to no others. Returns how many of them are subscribed.
    pub(crate) fn listen(&mut self, channels: &[Channel<'a>]) -> usize {
        self.listeners.retain(|(channel, listener)| {
            // A lock may have moved to another server since the thread has registered.
            let is_wanted = channels.iter().any(|wanted| wanted.is(*channel));
            is_wanted && channel.core.subscriber.is_in_place(listener, channel.key)
        });
        for &channel in channels {
            self.add(channel, channel.in_line_since);
        }
        let live = self.listeners.iter();
        live.filter(|(_, listener)| listener.is_live()).count()
    }

    pub(crate) fn stop_listening(&mut self) {
        self.listeners.clear();
    }

    fn listener(&self, channel: Channel<'_>) -> Option<&Listener> {
        let mut listeners = self.listeners.iter();
        let found = listeners.find(|(listened, _)| listened.is(channel));
        found.map(|(_, listener)| listener)
    }

    /// Sleeps until a wake-up, at most for `longest`. Without the subscriptions, at most
    /// until the next poll: then only a request notices a change. The reply to a subscription wakes
    /// the thread, so until then it polls rarely: when thousands of threads begin to wait, their
    /// requests would delay those replies. True if the thread was woken.
    pub(crate) fn sleep(&mut self, is_live: bool, longest: Duration) -> bool {
        let mut listeners = self.listeners.iter();
        let poll = match is_live {
            true => longest,
            false if listeners.any(|(_, listener)| listener.is_coming()) => LONGEST_POLL,
            false => self.polls.next(),
        };
        self.budget.wait(longest.min(poll))
    }

    /// Sleeps until a message arrives on one of these channels, at most for `longest`. Lets the
    /// subscriber thread send this request then. True if the thread was woken.
    pub(crate) fn sleep_listening(
        &mut self,
        core: &Core,
        channels: &[Channel<'a>],
        request: Option<&Arc<Prepared>>,
        longest: Duration,
    ) -> bool {
        let is_live = self.listen(channels) == channels.len();
        // After the registration. A message before that wakes the thread, which then sends it.
        if let Some(request) = request {
            let listeners = channels.iter().filter_map(|one| self.listener(*one));
            listeners.for_each(|listener| listener.prepare(Arc::clone(request)));
        }
        self.sleep_counted(core, is_live, longest)
    }

    /// As [`sleep`](Self::sleep), and counts the end of the sleep.
    pub(crate) fn sleep_counted(&mut self, core: &Core, is_live: bool, longest: Duration) -> bool {
        let is_woken = self.sleep(is_live, longest);
        let counters = &core.observer.counters;
        match is_woken {
            true => counters.wakeups_by_message.add(1),
            false => counters.wakeups_by_timeout.add(1),
        }
        is_woken
    }

    /// Sleeps until this moment, although messages arrive.
    pub(crate) fn sleep_deaf(&self, until: Moment) {
        while !until.is_past() && !self.budget.is_interrupted() {
            self.budget.park(until.left());
        }
    }
}

impl<'a> Channel<'a> {
    /// Each message wakes the thread.
    pub(crate) fn of(core: &'a Core, key: &'a LockKey) -> Self {
        Self {
            core,
            key,
            filter: Filter::All,
            in_line_since: None,
        }
    }

    /// Messages whose script has called the clients in the line do not wake the thread.
    pub(crate) fn except_calls(self) -> Self {
        Self {
            filter: Filter::ExceptCalls,
            ..self
        }
    }

    /// Calls of this client wake the thread, since a request that was sent after this moment.
    pub(crate) fn called(self, asked: Moment) -> Self {
        Self {
            in_line_since: Some(asked),
            ..self
        }
    }

    fn name(self) -> Arc<str> {
        let Self { core, key, .. } = self;
        match self.in_line_since.is_some() {
            true => core.subscriber.call_name(key, &core.place(key)),
            false => Arc::clone(key.channel()),
        }
    }

    /// The same registration: the `LockKey` at the same address, the same filter, and both for
    /// calls or both for releases.
    fn is(self, other: Channel<'_>) -> bool {
        std::ptr::eq(self.key, other.key)
            && self.filter == other.filter
            && self.in_line_since.is_some() == other.in_line_since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Interrupt;
    use crate::error::Error;

    const MS: Duration = Duration::from_millis(1);

    fn budget() -> CallBudget<'static> {
        CallBudget::with_wait(Duration::MAX, Duration::from_secs(1), Duration::MAX)
    }

    #[test]
    fn a_wake_up_between_two_sleeps_ends_the_next_one() {
        let budget = budget();
        let mut wait = Wait::new(&budget, polls());
        for is_live in [true, false] {
            budget.unparker().unpark();
            assert!(wait.sleep(is_live, Duration::MAX));
        }
    }

    #[test]
    fn polls_become_rare_only_while_there_is_no_subscription() {
        let budget = budget();
        let mut wait = Wait::new(&budget, Backoff::new(MS, MS * 4));
        assert!(!wait.sleep(true, MS), "no message");
        assert!(!wait.sleep(false, Duration::MAX), "it polls");
        assert_eq!(wait.polls.next(), MS * 2);
    }

    #[test]
    fn a_deaf_sleep_lasts_although_messages_arrive() {
        let budget = budget();
        let wait = Wait::new(&budget, polls());
        let until = Moment::now().after(MS * 2);
        budget.unparker().unpark_by_message();
        wait.sleep_deaf(until);
        assert!(until.is_past());
    }

    #[test]
    fn an_interrupt_ends_the_loop_after_a_round_without_a_result() {
        let interrupt = Interrupt::new();
        let budget = budget().with_interrupt(Some(&interrupt));
        let mut rounds = 0;
        let mut round = |result| {
            rounds += 1;
            interrupt.interrupt();
            Ok(result)
        };
        let result = repeat_until_done(&budget, "a", || round(Break(())));
        assert_eq!(result.unwrap(), (), "a result counts");
        let result = repeat_until_done(&budget, "a", || round(ControlFlow::Continue(())));
        assert!(matches!(result, Err(Error::Interrupted { .. })));
        assert_eq!(rounds, 2);
    }
}
