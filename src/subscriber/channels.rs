//! Which threads wait for messages of which channels. Pure: no clock, no I/O, no mutex.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::parker::Unparker;
use crate::request::Prepared;

/// How long a channel stays subscribed after its last listener is removed, so that a lock with
/// frequent contention does not cost a new subscription each time.
pub(crate) const LINGER: Duration = Duration::from_secs(5);

/// How long after a refused subscription the server is asked again.
pub(super) const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// The largest number of channels that are subscribed together. It bounds the size of a request.
pub(super) const BATCH: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Channels {
    channels: HashMap<Arc<str>, Channel>,
    /// The channels that are [wanted](Subscription::Wanted).
    wanted: HashSet<Arc<str>>,
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
    /// The subscriber thread requests the subscription now.
    Requested,
    /// Redis confirmed the subscription on the current connection.
    Live,
    /// Redis refused the subscription at this moment.
    Refused(Moment),
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
            wanted.insert(Arc::clone(channel));
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
        matches!(entry.state, Subscription::Wanted | Subscription::Requested)
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
                self.wanted.remove(channel);
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
        let entry = self.channels.get(channel);
        entry.is_some_and(|entry| entry.state == Subscription::Live)
    }

    /// Returns channels to subscribe, at most [`BATCH`]. Each is confirmed, refused or moved next,
    /// or the connection fails.
    pub(crate) fn take_wanted(&mut self) -> Vec<Arc<str>> {
        let taken: Vec<Arc<str>> = self.wanted.iter().take(BATCH).cloned().collect();
        for channel in &taken {
            self.wanted.remove(channel);
            self.set(channel, Subscription::Requested);
        }
        taken
    }

    fn set(&mut self, channel: &str, state: Subscription) {
        if let Some(entry) = self.channels.get_mut(channel) {
            entry.state = state;
        }
    }

    pub(crate) fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Records that Redis confirmed the subscription. Returns the listeners, which must try to
    /// acquire their locks because they missed earlier messages.
    pub(crate) fn confirmed(&mut self, channel: &str) -> Vec<Unparker> {
        self.set(channel, Subscription::Live);
        let entry = self.channels.get(channel);
        entry.map_or(Vec::new(), |entry| entry.unparkers().collect())
    }

    /// Forgets a channel that has moved to another server. Returns its listeners, which must
    /// register there.
    pub(crate) fn moved(&mut self, channel: &str) -> Vec<Unparker> {
        self.wanted.remove(channel);
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

    /// Records that Redis refused the subscription. While the channel is in use, it is wanted
    /// again after [`REFUSED_PAUSE`], and on the next connection.
    pub(crate) fn refused(&mut self, channel: &str, now: Moment) {
        self.set(channel, Subscription::Refused(now));
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
        let entries = self.channels.values_mut();
        entries.for_each(|entry| entry.state = Subscription::Wanted);
        self.wanted = self.channels.keys().cloned().collect();
        self.channels
            .values()
            .flat_map(Channel::unparkers)
            .collect()
    }

    /// Forgets the channels that have been unused for [`LINGER`], and wants those again that were
    /// refused [`REFUSED_PAUSE`] ago. Returns the channels to unsubscribe. It looks at every
    /// channel, so it is not called for each message.
    pub(crate) fn expire(&mut self, now: Moment) -> Vec<Arc<str>> {
        let mut subscribed = Vec::new();
        let Self { channels, wanted } = self;
        channels.retain(|channel, entry| {
            let unused = entry.unused_since;
            let is_kept = unused.is_none_or(|since| now < since.after(LINGER));
            match entry.state {
                Subscription::Live if !is_kept => subscribed.push(Arc::clone(channel)),
                Subscription::Refused(at) if is_kept && at.after(REFUSED_PAUSE) <= now => {
                    entry.state = Subscription::Wanted;
                    wanted.insert(Arc::clone(channel));
                }
                _ => {}
            }
            is_kept
        });
        subscribed
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
        assert_eq!(channels.take_wanted(), [channel()]);
        assert!(channels.take_wanted().is_empty() && !channels.is_live("channel"));
        let listeners = channels.confirmed("channel");
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
        channels.remove("channel", &one, Moment::ZERO);
        assert!(channels.is_empty() && !channels.has_wanted());
    }

    #[test]
    fn a_channel_that_is_not_used_any_more_when_it_is_confirmed_is_unsubscribed_later() {
        let mut channels = Channels::default();
        let (one, _sleeper) = pair();
        channels.add(&channel(), one.clone(), None);
        channels.take_wanted();
        channels.remove("channel", &one, Moment::ZERO);
        assert!(channels.add(&channel(), one.clone(), None), "not confirmed");
        assert!(!channels.has_wanted(), "it is requested once");
        channels.remove("channel", &one, Moment::ZERO);
        assert!(channels.confirmed("channel").is_empty());
        assert_eq!(channels.expire(Moment::ZERO.after(LINGER)), [channel()]);
        assert!(channels.is_empty());
    }

    #[test]
    fn all_wanted_channels_are_taken_together_up_to_a_limit() {
        let mut channels = Channels::default();
        let (one, _sleeper) = pair();
        for number in 0..=BATCH {
            channels.add(&number.to_string().into(), one.clone(), None);
        }
        let first = channels.take_wanted();
        let rest = channels.take_wanted();
        assert_eq!((first.len(), rest.len()), (BATCH, 1));
        assert!(!first.contains(&rest[0]) && !channels.has_wanted());
    }

    #[test]
    fn a_lost_connection_wakes_all_listeners_and_wants_all_channels_again() {
        let mut channels = Channels::default();
        let (one, first) = pair();
        let (two, second) = pair();
        channels.add(&channel(), one, None);
        channels.add(&channel(), two, None);
        channels.take_wanted();
        channels.confirmed("channel");
        channels.disconnected().iter().for_each(Unparker::unpark);
        assert!(woken(&first) && woken(&second));
        assert!(!channels.is_live("channel"));
        assert_eq!(channels.take_wanted(), [channel()]);
    }

    #[test]
    fn an_unused_channel_lingers_and_is_then_unsubscribed() {
        let mut channels = Channels::default();
        let (one, _sleeper) = pair();
        let start = Moment::ZERO.after(Duration::from_secs(100));
        channels.add(&channel(), one.clone(), None);
        channels.take_wanted();
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
        channels.take_wanted();
        channels.confirmed("channel");
        channels.moved("channel").iter().for_each(Unparker::unpark);
        assert!(woken(&parker));
        assert!(channels.is_empty() && !channels.has("channel", &one));
        channels.remove("channel", &one, Moment::ZERO);
        assert!(channels.add(&channel(), one, None), "it may come back");
    }

    #[test]
    fn a_refused_channel_is_wanted_again_after_a_pause_and_on_the_next_connection() {
        let mut channels = Channels::default();
        let (one, parker) = pair();
        channels.add(&channel(), one.clone(), None);
        channels.take_wanted();
        channels.refused("channel", Moment::ZERO);
        assert!(!channels.has_wanted() && !channels.is_live("channel") && !woken(&parker));
        let soon = Moment::ZERO.after(REFUSED_PAUSE / 2);
        assert!(channels.expire(soon).is_empty() && !channels.has_wanted());

        channels.disconnected();
        assert_eq!(channels.take_wanted(), [channel()]);
        channels.refused("channel", Moment::ZERO);

        // The same channel, although no thread waits at this moment.
        let then = Moment::ZERO.after(REFUSED_PAUSE);
        channels.remove("channel", &one, soon.after(REFUSED_PAUSE / 2));
        assert!(channels.expire(then).is_empty());
        assert_eq!(channels.take_wanted(), [channel()]);
        channels.add(&channel(), one.clone(), None);
        channels
            .confirmed("channel")
            .iter()
            .for_each(Unparker::unpark);
        assert!(woken(&parker) && channels.is_live("channel"));

        // A refused channel that is not used any more is forgotten.
        channels.refused("channel", then);
        channels.remove("channel", &one, then);
        assert!(channels.expire(then.after(REFUSED_PAUSE)).is_empty());
        assert!(channels.is_empty() && !channels.has_wanted());
    }
}
