//! Who listens to which channel. Pure: no clock, no I/O, no lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::wake::Waker;

/// A channel that nobody listens to any more stays subscribed for so long: a lock that is contended
/// again and again is not subscribed again and again.
pub(crate) const LINGER: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Registry {
    channels: HashMap<Arc<str>, Channel>,
    /// Channels to subscribe, in the order in which they were asked for.
    wanted: Vec<Arc<str>>,
}

#[derive(Debug)]
struct Channel {
    state: State,
    listeners: Vec<Waker>,
    deserted: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Wanted,
    /// Redis confirmed the subscription on the connection that stands.
    Live,
    /// Redis refused it.
    Refused,
}

impl Registry {
    /// Adds a listener; true if its channel must be subscribed first.
    pub(crate) fn add(&mut self, channel: &Arc<str>, listener: Waker) -> bool {
        let wanted = &mut self.wanted;
        let entry = self.channels.entry(Arc::clone(channel)).or_insert_with(|| {
            wanted.push(Arc::clone(channel));
            Channel {
                state: State::Wanted,
                listeners: Vec::new(),
                deserted: None,
            }
        });
        entry.listeners.push(listener);
        entry.deserted = None;
        entry.state == State::Wanted
    }

    /// The listener removed, to be dropped by the caller.
    pub(crate) fn remove(&mut self, channel: &str, listener: &Waker, now: Moment) -> Option<Waker> {
        let entry = self.channels.get_mut(channel)?;
        let at = entry.listeners.iter().position(|l| l.same_as(listener))?;
        let removed = entry.listeners.remove(at);
        if entry.listeners.is_empty() {
            entry.deserted = Some(now);
        }
        Some(removed)
    }

    pub(crate) fn is_live(&self, channel: &str) -> bool {
        self.is(channel, State::Live)
    }

    fn is(&self, channel: &str, state: State) -> bool {
        self.channels.get(channel).is_some_and(|c| c.state == state)
    }

    /// The next channel to subscribe. It stays wanted until it is confirmed or refused.
    pub(crate) fn next_wanted(&mut self) -> Option<Arc<str>> {
        while !self.wanted.is_empty() {
            let channel = self.wanted.remove(0);
            if self.is(&channel, State::Wanted) {
                return Some(channel);
            }
        }
        None
    }

    pub(crate) fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Redis confirmed the subscription. Those who listen try once more, because what was published
    /// before it is not heard.
    pub(crate) fn confirmed(&mut self, channel: &str) -> Vec<Waker> {
        self.settle(channel, State::Live)
    }

    pub(crate) fn refused(&mut self, channel: &str) {
        self.settle(channel, State::Refused);
    }

    fn settle(&mut self, channel: &str, state: State) -> Vec<Waker> {
        let Some(entry) = self.channels.get_mut(channel) else {
            return Vec::new();
        };
        entry.state = state;
        entry.listeners.clone()
    }

    /// The one who is to try after a message: the longest waiting, who goes to the end.
    pub(crate) fn message(&mut self, channel: &str) -> Option<Waker> {
        let listeners = &mut self.channels.get_mut(channel)?.listeners;
        if listeners.is_empty() {
            return None;
        }
        listeners.rotate_left(1);
        listeners.last().cloned()
    }

    /// The connection is gone, and with it every subscription. Everybody must try, because nobody
    /// knows what was missed.
    pub(crate) fn disconnected(&mut self) -> Vec<Waker> {
        self.wanted.clear();
        for (channel, entry) in &mut self.channels {
            entry.state = State::Wanted;
            self.wanted.push(Arc::clone(channel));
        }
        let listeners = self.channels.values().flat_map(|entry| &entry.listeners);
        listeners.cloned().collect()
    }

    /// Forgets the channels that have been deserted for long enough; those are to be unsubscribed.
    pub(crate) fn expire(&mut self, now: Moment) -> Vec<Arc<str>> {
        let expired: Vec<Arc<str>> = self
            .channels
            .iter()
            .filter(|(_, entry)| {
                let left = entry.deserted;
                left.is_some_and(|since| since.after(LINGER) <= now)
            })
            .map(|(channel, _)| Arc::clone(channel))
            .collect();
        let gone = expired.into_iter().filter(|channel| {
            let entry = self.channels.remove(channel);
            entry.is_some_and(|entry| entry.state == State::Live)
        });
        gone.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::{Sleeper, pair};

    fn channel() -> Arc<str> {
        "channel".into()
    }

    fn woken(sleeper: &Sleeper) -> bool {
        sleeper.sleep(Duration::ZERO)
    }

    #[test]
    fn the_first_listener_wants_a_subscription_and_the_next_use_it() {
        let mut registry = Registry::default();
        let (one, sleeper) = pair();
        assert!(registry.add(&channel(), one));
        assert_eq!(registry.next_wanted(), Some(channel()));
        assert_eq!(registry.next_wanted(), None);
        assert!(!registry.is_live("channel"));
        registry.confirmed("channel").iter().for_each(Waker::wake);
        assert!(registry.is_live("channel"));
        assert!(woken(&sleeper), "a confirmation is worth another try");
        let (two, _sleeper) = pair();
        assert!(!registry.add(&channel(), two));
    }

    #[test]
    fn one_message_wakes_one_listener_and_they_take_turns() {
        let mut registry = Registry::default();
        let (one, first) = pair();
        let (two, second) = pair();
        registry.add(&channel(), one);
        registry.add(&channel(), two);
        registry.message("channel").unwrap().wake();
        assert!(woken(&first) && !woken(&second));
        registry.message("channel").unwrap().wake();
        assert!(!woken(&first) && woken(&second));
        assert!(registry.message("another").is_none());
    }

    #[test]
    fn a_lost_connection_wakes_all_and_wants_all_again() {
        let mut registry = Registry::default();
        let (one, first) = pair();
        let (two, second) = pair();
        registry.add(&channel(), one);
        registry.add(&channel(), two);
        registry.next_wanted();
        registry.confirmed("channel");
        registry.disconnected().iter().for_each(Waker::wake);
        assert!(woken(&first) && woken(&second));
        assert!(!registry.is_live("channel"));
        assert_eq!(registry.next_wanted(), Some(channel()));
    }

    #[test]
    fn a_deserted_channel_lingers_and_then_goes() {
        let mut registry = Registry::default();
        let (one, _sleeper) = pair();
        let start = Moment::ZERO.after(Duration::from_secs(100));
        registry.add(&channel(), one.clone());
        registry.next_wanted();
        registry.confirmed("channel");
        registry.remove("channel", &one, start);
        assert!(registry.expire(start.after(LINGER / 2)).is_empty());
        assert!(registry.is_live("channel"));

        // Somebody comes back: it stays.
        registry.add(&channel(), one.clone());
        assert!(registry.expire(start.after(LINGER * 2)).is_empty());
        registry.remove("channel", &one, start);
        assert_eq!(registry.expire(start.after(LINGER)), [channel()]);
        assert!(!registry.is_live("channel"));
    }

    #[test]
    fn a_refused_channel_is_not_asked_for_again_and_again() {
        let mut registry = Registry::default();
        let (one, sleeper) = pair();
        registry.add(&channel(), one);
        registry.next_wanted();
        registry.refused("channel");
        assert!(!registry.has_wanted() && !registry.is_live("channel") && !woken(&sleeper));
    }
}
