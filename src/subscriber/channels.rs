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

    /// True if the server has not replied to the subscription yet. Its reply wakes the listeners.
    pub(crate) fn is_coming(&self, channel: &str) -> bool {
        let entry = self.channels.get(channel);
        let coming = [Subscription::Wanted, Subscription::Requested];
        entry.is_some_and(|entry| coming.contains(&entry.state))
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
            if !is_kept {
                wanted.remove(channel);
            }
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
mod tests;
