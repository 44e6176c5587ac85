//! Who listens to which channel. Pure: no clock, no I/O, no lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::parker::Unparker;

/// A channel that nobody listens to any more stays subscribed for so long: a lock that is contended
/// again and again is not subscribed again and again.
pub(crate) const LINGER: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Channels {
    channels: HashMap<Arc<str>, Channel>,
    /// Channels to subscribe, in the order in which they were asked for.
    wanted: Vec<Arc<str>>,
}

#[derive(Debug)]
struct Channel {
    state: Subscription,
    listeners: Vec<Unparker>,
    deserted: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subscription {
    Wanted,
    /// Redis confirmed the subscription on the connection that stands.
    Live,
    /// Redis refused it.
    Refused,
}

impl Channels {
    /// Adds a listener; true if its channel must be subscribed first.
    pub(crate) fn add(&mut self, channel: &Arc<str>, listener: Unparker) -> bool {
        let wanted = &mut self.wanted;
        let entry = self.channels.entry(Arc::clone(channel)).or_insert_with(|| {
            wanted.push(Arc::clone(channel));
            Channel {
                state: Subscription::Wanted,
                listeners: Vec::new(),
                deserted: None,
            }
        });
        entry.listeners.push(listener);
        entry.deserted = None;
        entry.state == Subscription::Wanted
    }

    /// The listener removed, to be dropped by the caller. A channel that has none left lingers, but is
    /// forgotten at once if Redis has not been asked for it yet.
    pub(crate) fn remove(
        &mut self,
        channel: &str,
        listener: &Unparker,
        now: Moment,
    ) -> Option<Unparker> {
        let entry = self.channels.get_mut(channel)?;
        let at = entry.listeners.iter().position(|l| l.same_as(listener))?;
        let removed = entry.listeners.remove(at);
        if entry.listeners.is_empty() {
            entry.deserted = Some(now);
            if entry.state == Subscription::Wanted {
                self.channels.remove(channel);
                self.wanted.retain(|wanted| &**wanted != channel);
            }
        }
        Some(removed)
    }

    pub(crate) fn is_live(&self, channel: &str) -> bool {
        self.is(channel, Subscription::Live)
    }

    fn is(&self, channel: &str, state: Subscription) -> bool {
        self.channels.get(channel).is_some_and(|c| c.state == state)
    }

    /// The next channel to subscribe. It stays wanted until it is confirmed or refused.
    pub(crate) fn next_wanted(&mut self) -> Option<Arc<str>> {
        while !self.wanted.is_empty() {
            let channel = self.wanted.remove(0);
            if self.is(&channel, Subscription::Wanted) {
                return Some(channel);
            }
        }
        None
    }

    pub(crate) fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Redis confirmed the subscription. Those who listen try once more, because what was published
    /// before it is not heard. `None` if nobody wants it any more.
    pub(crate) fn confirmed(&mut self, channel: &str) -> Option<Vec<Unparker>> {
        let entry = self.channels.get_mut(channel)?;
        entry.state = Subscription::Live;
        Some(entry.listeners.clone())
    }

    /// The channel is another server's now. Those who listened here are to listen there.
    pub(crate) fn moved(&mut self, channel: &str) -> Vec<Unparker> {
        self.wanted.retain(|wanted| &**wanted != channel);
        let entry = self.channels.remove(channel);
        entry.map_or(Vec::new(), |entry| entry.listeners)
    }

    /// Whether this listener is (still) told of messages on the channel.
    pub(crate) fn has(&self, channel: &str, listener: &Unparker) -> bool {
        let entry = self.channels.get(channel);
        entry.is_some_and(|entry| entry.listeners.iter().any(|l| l.same_as(listener)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    pub(crate) fn refused(&mut self, channel: &str) {
        if let Some(entry) = self.channels.get_mut(channel) {
            entry.state = Subscription::Refused;
        }
    }

    /// Those who are to try after a message. Each stands for another lock: of all threads that want
    /// one lock only the one with the turn listens, but locks can share a channel, as `a` and `{a}` do.
    pub(crate) fn message(&self, channel: &str) -> &[Unparker] {
        let entry = self.channels.get(channel);
        entry.map_or(&[], |entry| entry.listeners.as_slice())
    }

    /// The connection is gone, and with it every subscription. Everybody must try, because nobody
    /// knows what was missed.
    pub(crate) fn disconnected(&mut self) -> Vec<Unparker> {
        self.wanted.clear();
        for (channel, entry) in &mut self.channels {
            entry.state = Subscription::Wanted;
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
            entry.is_some_and(|entry| entry.state == Subscription::Live)
        });
        gone.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parker::{Parker, pair};

    fn channel() -> Arc<str> {
        "channel".into()
    }

    fn woken(parker: &Parker) -> bool {
        parker.sleep(Duration::ZERO)
    }

    #[test]
    fn the_first_listener_wants_a_subscription_and_the_next_use_it() {
        let mut channels = Channels::default();
        let (one, parker) = pair();
        assert!(channels.add(&channel(), one));
        assert_eq!(channels.next_wanted(), Some(channel()));
        assert_eq!(channels.next_wanted(), None);
        assert!(!channels.is_live("channel"));
        let listeners = channels.confirmed("channel").unwrap();
        listeners.iter().for_each(Unparker::unpark);
        assert!(channels.is_live("channel"));
        assert!(woken(&parker), "a confirmation is worth another try");
        let (two, _sleeper) = pair();
        assert!(!channels.add(&channel(), two));
    }

    #[test]
    fn a_message_wakes_those_of_all_locks_that_share_its_channel() {
        let mut channels = Channels::default();
        let (one, first) = pair();
        let (two, second) = pair();
        channels.add(&channel(), one);
        channels.add(&channel(), two);
        channels
            .message("channel")
            .iter()
            .for_each(Unparker::unpark);
        assert!(woken(&first) && woken(&second));
        assert!(channels.message("another").is_empty());
    }

    #[test]
    fn a_channel_that_was_never_subscribed_is_forgotten_with_its_last_listener() {
        let mut channels = Channels::default();
        let (one, _sleeper) = pair();
        channels.add(&channel(), one.clone());
        // Its subscription is under way when nobody wants it any more.
        assert_eq!(channels.next_wanted(), Some(channel()));
        channels.remove("channel", &one, Moment::ZERO);
        assert!(channels.channels.is_empty());
        assert!(channels.confirmed("channel").is_none());
    }

    #[test]
    fn a_lost_connection_wakes_all_and_wants_all_again() {
        let mut channels = Channels::default();
        let (one, first) = pair();
        let (two, second) = pair();
        channels.add(&channel(), one);
        channels.add(&channel(), two);
        channels.next_wanted();
        channels.confirmed("channel");
        channels.disconnected().iter().for_each(Unparker::unpark);
        assert!(woken(&first) && woken(&second));
        assert!(!channels.is_live("channel"));
        assert_eq!(channels.next_wanted(), Some(channel()));
    }

    #[test]
    fn a_deserted_channel_lingers_and_then_goes() {
        let mut channels = Channels::default();
        let (one, _sleeper) = pair();
        let start = Moment::ZERO.after(Duration::from_secs(100));
        channels.add(&channel(), one.clone());
        channels.next_wanted();
        channels.confirmed("channel");
        channels.remove("channel", &one, start);
        assert!(channels.expire(start.after(LINGER / 2)).is_empty());
        assert!(channels.is_live("channel"));

        // Somebody comes back: it stays.
        channels.add(&channel(), one.clone());
        assert!(channels.expire(start.after(LINGER * 2)).is_empty());
        channels.remove("channel", &one, start);
        assert_eq!(channels.expire(start.after(LINGER)), [channel()]);
        assert!(!channels.is_live("channel"));
    }

    #[test]
    fn a_channel_that_moved_away_is_forgotten_and_its_listeners_are_woken() {
        let mut channels = Channels::default();
        let (one, parker) = pair();
        channels.add(&channel(), one.clone());
        channels.next_wanted();
        channels.confirmed("channel");
        channels.moved("channel").iter().for_each(Unparker::unpark);
        assert!(woken(&parker));
        assert!(channels.is_empty() && !channels.has("channel", &one));
        channels.remove("channel", &one, Moment::ZERO);
        assert!(channels.add(&channel(), one), "it may come back");
    }

    #[test]
    fn a_refused_channel_is_not_asked_for_again_and_again() {
        let mut channels = Channels::default();
        let (one, parker) = pair();
        channels.add(&channel(), one);
        channels.next_wanted();
        channels.refused("channel");
        assert!(!channels.has_wanted() && !channels.is_live("channel") && !woken(&parker));
    }
}
