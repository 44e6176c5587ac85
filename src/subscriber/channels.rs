//! Which threads wait for messages of which channels. Pure: no clock, no I/O, no mutex.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::parker::Unparker;
use crate::request::Prepared;

/// How long a channel stays subscribed after its last listener is removed, so that a lock with
/// frequent contention does not cost a new subscription each time.
pub(crate) const LINGER: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Channels {
    channels: HashMap<Arc<str>, Channel>,
    /// Channels to subscribe, in the order in which they were added.
    wanted: Vec<Arc<str>>,
}

/// A waiting thread.
#[derive(Clone, Debug)]
pub(super) struct Listening {
    pub(super) unparker: Unparker,
    /// Its request, which is sent when a message arrives.
    pub(super) prepared: Option<Arc<Prepared>>,
    /// Only messages with this word wake it.
    pub(super) word: Option<Arc<str>>,
}

#[derive(Debug)]
struct Channel {
    state: Subscription,
    listeners: Vec<Listening>,
    /// When its last listener was removed.
    unused_since: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subscription {
    Wanted,
    /// Redis confirmed the subscription on the current connection.
    Live,
    /// Redis refused the subscription.
    Refused,
}

impl Channels {
    /// Adds a listener. With a word, only messages with this word wake it. Returns true if its
    /// channel is not subscribed yet.
    pub(crate) fn add(
        &mut self,
        channel: &Arc<str>,
        listener: Unparker,
        word: Option<&str>,
    ) -> bool {
        let wanted = &mut self.wanted;
        let entry = self.channels.entry(Arc::clone(channel)).or_insert_with(|| {
            wanted.push(Arc::clone(channel));
            Channel {
                state: Subscription::Wanted,
                listeners: Vec::new(),
                unused_since: None,
            }
        });
        entry.listeners.push(Listening {
            unparker: listener,
            prepared: None,
            word: word.map(Arc::from),
        });
        entry.unused_since = None;
        entry.state == Subscription::Wanted
    }

    /// Removes a listener, and returns it so that the caller can drop it without a mutex. A channel
    /// without listeners stays for [`LINGER`], or is forgotten at once if it is still wanted.
    pub(crate) fn remove(
        &mut self,
        channel: &str,
        listener: &Unparker,
        now: Moment,
    ) -> Option<Listening> {
        let entry = self.channels.get_mut(channel)?;
        let at = entry.position(listener)?;
        let removed = entry.listeners.remove(at);
        if entry.listeners.is_empty() {
            entry.unused_since = Some(now);
            if entry.state == Subscription::Wanted {
                self.channels.remove(channel);
                self.wanted.retain(|wanted| &**wanted != channel);
            }
        }
        Some(removed)
    }

    /// Sets the request of a listener for the next message. Returns the one before, so that the
    /// caller can drop it without a mutex.
    pub(crate) fn prepare(
        &mut self,
        channel: &str,
        listener: &Unparker,
        request: Arc<Prepared>,
    ) -> Option<Arc<Prepared>> {
        let entry = self.channels.get_mut(channel)?;
        let at = entry.position(listener)?;
        entry.listeners[at].prepared.replace(request)
    }

    pub(crate) fn is_live(&self, channel: &str) -> bool {
        self.is(channel, Subscription::Live)
    }

    fn is(&self, channel: &str, state: Subscription) -> bool {
        self.channels.get(channel).is_some_and(|c| c.state == state)
    }

    /// Returns the next channel to subscribe. The channel stays wanted until its subscription is
    /// confirmed or refused.
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

    /// Records that Redis confirmed the subscription. Returns the listeners, which must try to
    /// acquire their locks because they missed earlier messages; `None` if the channel was
    /// forgotten meanwhile.
    pub(crate) fn confirmed(&mut self, channel: &str) -> Option<Vec<Unparker>> {
        let entry = self.channels.get_mut(channel)?;
        entry.state = Subscription::Live;
        Some(entry.unparkers().collect())
    }

    /// Forgets a channel that has moved to another server. Returns its listeners, which must
    /// register there.
    pub(crate) fn moved(&mut self, channel: &str) -> Vec<Unparker> {
        self.wanted.retain(|wanted| &**wanted != channel);
        let entry = self.channels.remove(channel);
        entry.map_or(Vec::new(), |entry| entry.unparkers().collect())
    }

    /// True if this listener is registered for the channel.
    pub(crate) fn has(&self, channel: &str, listener: &Unparker) -> bool {
        let entry = self.channels.get(channel);
        entry.is_some_and(|entry| entry.position(listener).is_some())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    pub(crate) fn refused(&mut self, channel: &str) {
        if let Some(entry) = self.channels.get_mut(channel) {
            entry.state = Subscription::Refused;
        }
    }

    /// Returns the listeners to wake after a message. On the channel of a lock, each waits for
    /// another lock: only the thread with the ticket of a lock listens, but locks such as `a` and
    /// `{a}` share a channel.
    pub(crate) fn message(&self, channel: &str, text: &str) -> Vec<Listening> {
        let is_for = |listener: &&Listening| match &listener.word {
            Some(expected) => text.split(' ').any(|word| word == &**expected),
            None => true,
        };
        let entry = self.channels.get(channel);
        let listeners = entry.into_iter().flat_map(|entry| &entry.listeners);
        listeners.filter(is_for).cloned().collect()
    }

    /// Records that the connection, and so every subscription, is gone. Returns all listeners,
    /// which must try to acquire their locks because they may have missed messages.
    pub(crate) fn disconnected(&mut self) -> Vec<Unparker> {
        self.wanted.clear();
        for (channel, entry) in &mut self.channels {
            entry.state = Subscription::Wanted;
            self.wanted.push(Arc::clone(channel));
        }
        self.channels
            .values()
            .flat_map(Channel::unparkers)
            .collect()
    }

    /// Forgets the channels that have been unused for [`LINGER`]. Returns those to unsubscribe.
    pub(crate) fn expire(&mut self, now: Moment) -> Vec<Arc<str>> {
        let expired: Vec<Arc<str>> = self
            .channels
            .iter()
            .filter(|(_, entry)| {
                let unused = entry.unused_since;
                unused.is_some_and(|since| since.after(LINGER) <= now)
            })
            .map(|(channel, _)| Arc::clone(channel))
            .collect();
        let subscribed = expired.into_iter().filter(|channel| {
            let entry = self.channels.remove(channel);
            entry.is_some_and(|entry| entry.state == Subscription::Live)
        });
        subscribed.collect()
    }
}

impl Channel {
    fn position(&self, listener: &Unparker) -> Option<usize> {
        let mut listeners = self.listeners.iter();
        listeners.position(|other| other.unparker.same_as(listener))
    }

    fn unparkers(&self) -> impl Iterator<Item = Unparker> {
        self.listeners
            .iter()
            .map(|listener| listener.unparker.clone())
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
        assert!(channels.add(&channel(), one, None));
        assert_eq!(channels.next_wanted(), Some(channel()));
        assert_eq!(channels.next_wanted(), None);
        assert!(!channels.is_live("channel"));
        let listeners = channels.confirmed("channel").unwrap();
        listeners.iter().for_each(Unparker::unpark);
        assert!(channels.is_live("channel"));
        assert!(woken(&parker), "a confirmation wakes its listeners");
        let (two, _sleeper) = pair();
        assert!(!channels.add(&channel(), two, None));
    }

    #[test]
    fn a_message_wakes_the_listeners_of_all_locks_that_share_its_channel() {
        let mut channels = Channels::default();
        let (one, first) = pair();
        let (two, second) = pair();
        channels.add(&channel(), one, None);
        channels.add(&channel(), two, None);
        let listeners = channels.message("channel", "0");
        let listeners = listeners.iter();
        listeners.for_each(|listener| listener.unparker.unpark());
        assert!(woken(&first) && woken(&second));
        assert!(channels.message("another", "0").is_empty());
    }

    #[test]
    fn a_listener_that_expects_a_word_is_woken_by_messages_with_this_word() {
        let mut channels = Channels::default();
        let (one, _first) = pair();
        channels.add(&channel(), one, Some("12"));
        for (text, count) in [("12", 1), ("7 12 9", 1), ("1", 0), ("123 2", 0), ("", 0)] {
            assert_eq!(channels.message("channel", text).len(), count, "{text:?}");
        }
    }

    #[test]
    fn a_channel_that_was_never_subscribed_is_forgotten_with_its_last_listener() {
        let mut channels = Channels::default();
        let (one, _sleeper) = pair();
        channels.add(&channel(), one.clone(), None);
        // Its subscription is on its way when its last listener is removed.
        assert_eq!(channels.next_wanted(), Some(channel()));
        channels.remove("channel", &one, Moment::ZERO);
        assert!(channels.channels.is_empty());
        assert!(channels.confirmed("channel").is_none());
    }

    #[test]
    fn a_lost_connection_wakes_all_listeners_and_wants_all_channels_again() {
        let mut channels = Channels::default();
        let (one, first) = pair();
        let (two, second) = pair();
        channels.add(&channel(), one, None);
        channels.add(&channel(), two, None);
        channels.next_wanted();
        channels.confirmed("channel");
        channels.disconnected().iter().for_each(Unparker::unpark);
        assert!(woken(&first) && woken(&second));
        assert!(!channels.is_live("channel"));
        assert_eq!(channels.next_wanted(), Some(channel()));
    }

    #[test]
    fn an_unused_channel_lingers_and_is_then_unsubscribed() {
        let mut channels = Channels::default();
        let (one, _sleeper) = pair();
        let start = Moment::ZERO.after(Duration::from_secs(100));
        channels.add(&channel(), one.clone(), None);
        channels.next_wanted();
        channels.confirmed("channel");
        channels.remove("channel", &one, start);
        assert!(channels.expire(start.after(LINGER / 2)).is_empty());
        assert!(channels.is_live("channel"));

        // A new listener keeps it.
        channels.add(&channel(), one.clone(), None);
        assert!(channels.expire(start.after(LINGER * 2)).is_empty());
        channels.remove("channel", &one, start);
        assert_eq!(channels.expire(start.after(LINGER)), [channel()]);
        assert!(!channels.is_live("channel"));
    }

    #[test]
    fn a_channel_that_moved_away_is_forgotten_and_its_listeners_are_woken() {
        let mut channels = Channels::default();
        let (one, parker) = pair();
        channels.add(&channel(), one.clone(), None);
        channels.next_wanted();
        channels.confirmed("channel");
        channels.moved("channel").iter().for_each(Unparker::unpark);
        assert!(woken(&parker));
        assert!(channels.is_empty() && !channels.has("channel", &one));
        channels.remove("channel", &one, Moment::ZERO);
        assert!(channels.add(&channel(), one, None), "it may come back");
    }

    #[test]
    fn a_refused_channel_is_not_wanted_again() {
        let mut channels = Channels::default();
        let (one, parker) = pair();
        channels.add(&channel(), one, None);
        channels.next_wanted();
        channels.refused("channel");
        assert!(!channels.has_wanted() && !channels.is_live("channel") && !woken(&parker));
    }
}
