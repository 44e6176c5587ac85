//! Which threads wait for messages of which channels. Pure: no clock, no I/O, no mutex.

use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashSet};

use crate::base::{Moment, Unparker};
use crate::protocol::message::{Filter, Message};
use crate::request::Prepared;

/// How long a channel stays subscribed after its last listener is removed, so that a lock with
/// frequent contention does not cost a new subscription each time.
pub(crate) const LINGER: Duration = Duration::from_secs(5);

/// How long after a refused subscription the server is asked again.
pub(super) const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// The most messages that are kept for a while. Every client that may publish can send more.
const MOST_KEPT: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Channels {
    /// By channel, or for calls on the control channel, by message.
    channels: HashMap<Arc<str>, ChannelEntry>,
    /// Contains the channels that are [wanted](ChannelState::Wanted).
    wanted: Vec<Arc<str>>,
    /// When the control channel was subscribed on the current connection.
    connected: Option<Moment>,
    /// Calls for which no thread listened, and the locks that were freed: when they came, and the
    /// messages. A thread that was refused shortly before may be about to listen.
    unanswered: HashMap<Arc<str>, (Moment, Arc<str>)>,
    /// When the oldest message in `unanswered` came, or earlier.
    unanswered_since: Option<Moment>,
    /// When the last call came that was forgotten although no thread had listened for it.
    forgotten: Option<Moment>,
    expected: Expected,
}

/// The names for which the client may be called although no thread listens: the newest thousand
/// names for which a thread has listened or a request had no reply.
#[derive(Debug, Default)]
struct Expected {
    newer: HashSet<Arc<str>>,
    /// What `newer` was when it was full last.
    older: HashSet<Arc<str>>,
}

impl Expected {
    fn insert(&mut self, name: Arc<str>) {
        if self.newer.len() == MOST_KEPT && !self.newer.contains(&name) {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(name);
    }

    fn contains(&self, name: &str) -> bool {
        self.newer.contains(name) || self.older.contains(name)
    }
}

/// A waiting thread. It may have several listeners on a channel, with different filters.
#[derive(Clone, Debug)]
pub(super) struct Listening {
    pub(super) unparker: Unparker,
    /// The next request of the thread, which the subscriber thread sends when a message arrives.
    pub(super) prepared: Option<Arc<Prepared>>,
    pub(super) filter: Filter,
}

#[derive(Debug)]
struct ChannelEntry {
    state: ChannelState,
    listeners: Vec<Listening>,
    /// When its last listener was removed.
    unused_since: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChannelState {
    Wanted,
    /// The subscription was requested on the current connection.
    Requested,
    /// Redis confirmed the subscription on the current connection, at this moment.
    Live(Moment),
    /// Redis refused the subscription at this moment.
    Refused(Moment),
}

impl Channels {
    /// Adds a listener, which needs the messages from `since` on, or else all. True if its thread
    /// has to look at the lock now: it may have missed a message, or Redis refused the
    /// subscription, so none will come.
    pub(crate) fn add(
        &mut self,
        channel: &Arc<str>,
        listener: Unparker,
        filter: Filter,
        since: Option<Moment>,
    ) -> bool {
        // From now on, this thread answers the calls that came before.
        let called = self.unanswered.remove(channel);
        let wanted = &mut self.wanted;
        let entry = self.channels.entry(Arc::clone(channel)).or_insert_with(|| {
            wanted.push(Arc::clone(channel));
            ChannelEntry {
                state: ChannelState::Wanted,
                listeners: Vec::new(),
                unused_since: None,
            }
        });
        entry.listeners.push(Listening {
            unparker: listener,
            prepared: None,
            filter,
        });
        entry.unused_since = None;
        match (self.state(channel), since) {
            (Some(ChannelState::Wanted | ChannelState::Requested), _) => false,
            (Some(ChannelState::Live(live)), Some(since)) => {
                let called = called.map(|(called, _)| called);
                live >= since || called.max(self.forgotten) >= Some(since)
            }
            _ => true,
        }
    }

    /// Removes a listener, and returns it so that the caller can drop it without a mutex. A channel
    /// without listeners stays for [`LINGER`], or is forgotten at once if it is still wanted.
    pub(crate) fn remove(
        &mut self,
        channel: &Arc<str>,
        listener: (&Unparker, Filter),
        now: Moment,
    ) -> Option<Listening> {
        let entry = self.channels.get_mut(channel)?;
        let at = entry.position(listener)?;
        let removed = entry.listeners.remove(at);
        if entry.listeners.is_empty() {
            entry.unused_since = Some(now);
            // Redis does not know the channel yet, so there is nothing to unsubscribe later.
            if entry.state == ChannelState::Wanted {
                self.channels.remove(channel);
            }
            // A call may be on its way to the thread.
            self.expected.insert(Arc::clone(channel));
        }
        Some(removed)
    }

    /// The client may be called by this name, although no thread has listened for that.
    pub(crate) fn expect_call(&mut self, name: Arc<str>) {
        self.expected.insert(name);
    }

    /// Sets the request of a listener for the next message. Returns the one before, so that the
    /// caller can drop it without a mutex.
    pub(crate) fn prepare(
        &mut self,
        channel: &str,
        listener: (&Unparker, Filter),
        request: Arc<Prepared>,
    ) -> Option<Arc<Prepared>> {
        let entry = self.channels.get_mut(channel)?;
        let at = entry.position(listener)?;
        entry.listeners[at].prepared.replace(request)
    }

    /// The state of a channel. That of a call is the state of the control channel.
    fn state(&self, channel: &str) -> Option<ChannelState> {
        let entry = self.channels.get(channel)?;
        Some(match (is_call(channel), self.connected) {
            (true, Some(since)) => ChannelState::Live(since),
            _ => entry.state,
        })
    }

    pub(crate) fn is_live(&self, channel: &str) -> bool {
        matches!(self.state(channel), Some(ChannelState::Live(_)))
    }

    /// True if the server has not replied to the subscription yet. Its reply wakes the listeners.
    pub(crate) fn is_coming(&self, channel: &str) -> bool {
        let coming = [ChannelState::Wanted, ChannelState::Requested];
        self.state(channel)
            .is_some_and(|state| coming.contains(&state))
    }

    /// Returns channels to subscribe. Each is confirmed, refused or moved next, or the connection
    /// fails.
    pub(crate) fn take_wanted(&mut self) -> Vec<Arc<str>> {
        let mut taken = std::mem::take(&mut self.wanted);
        taken.retain(|channel| match self.channels.get_mut(channel) {
            Some(entry) if entry.state == ChannelState::Wanted && !is_call(channel) => {
                entry.state = ChannelState::Requested;
                true
            }
            _ => false,
        });
        taken
    }

    /// Sets the state of a channel. Returns its listeners.
    fn set(&mut self, channel: &str, state: ChannelState) -> Vec<Unparker> {
        let Some(entry) = self.channels.get_mut(channel) else {
            return Vec::new();
        };
        entry.state = state;
        entry.unparkers().collect()
    }

    /// True if the control channel is subscribed.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.is_some()
    }

    /// Records at `now` that the control channel is subscribed. Returns the listeners of calls,
    /// which may have missed some.
    pub(crate) fn connected(&mut self, now: Moment) -> Vec<Unparker> {
        self.connected = Some(now);
        let calls = self.channels.iter().filter(|(name, _)| is_call(name));
        calls.flat_map(|(_, entry)| entry.unparkers()).collect()
    }

    /// When the first message came that [is taken](Self::take_unanswered), or earlier.
    pub(crate) fn unanswered_since(&self) -> Option<Moment> {
        self.unanswered_since
    }

    /// Returns the names and messages of calls that no thread has answered since this moment, and
    /// of locks that were freed, and forgets them.
    pub(crate) fn take_unanswered(&mut self, since: Moment) -> Vec<(Arc<str>, Arc<str>)> {
        let is_old = |_: &Arc<str>, (called, _): &mut (Moment, Arc<str>)| *called <= since;
        let mut taken = Vec::new();
        for (name, (called, text)) in self.unanswered.extract_if(is_old) {
            self.forgotten = self.forgotten.max(Some(called));
            taken.push((name, text));
        }
        self.unanswered_since = self.unanswered.values().map(|(called, _)| *called).min();
        taken
    }

    /// Records that Redis confirmed the subscription. Returns the listeners, which must try to
    /// acquire their locks because they missed earlier messages.
    pub(crate) fn confirmed(&mut self, channel: &str, now: Moment) -> Vec<Unparker> {
        self.set(channel, ChannelState::Live(now))
    }

    /// Forgets a channel that has moved to another server. Returns its listeners, which must
    /// register there.
    pub(crate) fn moved(&mut self, channel: &str) -> Vec<Unparker> {
        let entry = self.channels.remove(channel);
        entry.map_or(Vec::new(), |entry| entry.unparkers().collect())
    }

    /// True if this listener is registered for the channel.
    pub(crate) fn has(&self, channel: &str, listener: (&Unparker, Filter)) -> bool {
        let entry = self.channels.get(channel);
        entry.is_some_and(|entry| entry.position(listener).is_some())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// Records that Redis refused the subscription. While the channel is in use, it is wanted
    /// again after [`REFUSED_PAUSE`], and on the next connection. Returns the listeners, which must
    /// ask without it.
    pub(crate) fn refused(&mut self, channel: &str, now: Moment) -> Vec<Unparker> {
        self.set(channel, ChannelState::Refused(now))
    }

    /// True if Redis refused the subscription when it was last requested.
    pub(crate) fn is_refused(&self, channel: &str) -> bool {
        matches!(self.state(channel), Some(ChannelState::Refused(_)))
    }

    /// Returns the listeners to wake after a message. On the channel of a lock, each waits for
    /// another lock: only the thread with the ticket of a lock listens, but locks such as `a` and
    /// `{a}` share a channel.
    pub(crate) fn message(&mut self, channel: &str, text: &str, now: Moment) -> Vec<Listening> {
        let message = Message::parse(text);
        // A script has asked whether this client listens.
        if message == Message::Empty {
            return Vec::new();
        }
        let entry = self.channels.get(channel);
        let listeners = entry.into_iter().flat_map(|entry| &entry.listeners);
        let woken = listeners.filter(|listener| listener.filter.accepts(message));
        let woken: Vec<_> = woken.cloned().collect();
        if woken.is_empty() && (is_call(text) || is_freed(channel)) {
            self.keep(channel, text, now);
        }
        woken
    }

    /// Keeps a message for which no thread listens, if the client expects it: every program that
    /// may publish can send others.
    fn keep(&mut self, name: &str, text: &str, now: Moment) {
        let is_expected = is_freed(name) || self.expected.contains(name);
        if is_expected && self.unanswered.len() < MOST_KEPT {
            self.unanswered.insert(name.into(), (now, text.into()));
            self.unanswered_since.get_or_insert(now);
        } else {
            self.forgotten = Some(now);
        }
    }

    /// Records that the connection, and so every subscription, is gone. Returns all listeners,
    /// which must try to acquire their locks because they may have missed messages.
    pub(crate) fn disconnected(&mut self) -> Vec<Unparker> {
        self.connected = None;
        // Also those that Redis refused: the next server may allow them.
        self.wanted = self.channels.keys().cloned().collect();
        let entries = self.channels.values_mut();
        entries
            .flat_map(|entry| {
                entry.state = ChannelState::Wanted;
                entry.unparkers()
            })
            .collect()
    }

    /// Forgets the channels that have been unused for [`LINGER`], except those whose subscription
    /// has no reply yet, and wants those again that were refused [`REFUSED_PAUSE`] ago. Returns the
    /// channels to unsubscribe. It looks at every channel, so it is not called for each message.
    pub(crate) fn expire(&mut self, now: Moment) -> Vec<Arc<str>> {
        let mut subscribed = Vec::new();
        let Self {
            channels, wanted, ..
        } = self;
        channels.retain(|channel, entry| {
            let unused = entry.unused_since;
            let is_kept = entry.state == ChannelState::Requested
                || unused.is_none_or(|since| now < since.after(LINGER));
            match entry.state {
                ChannelState::Live(_) if !is_kept => subscribed.push(Arc::clone(channel)),
                ChannelState::Refused(at) if is_kept && at.after(REFUSED_PAUSE) <= now => {
                    entry.state = ChannelState::Wanted;
                    wanted.push(Arc::clone(channel));
                }
                _ => {}
            }
            is_kept
        });
        subscribed
    }
}

/// True for the name of a call. It needs no subscription of its own.
fn is_call(name: &str) -> bool {
    Message::called(name).is_some()
}

/// True for the message that a lock of this client was freed, which is the name of no channel.
fn is_freed(name: &str) -> bool {
    matches!(Message::parse(name), Message::Freed(_))
}

impl ChannelEntry {
    /// Where the listener of this thread with this filter is.
    fn position(&self, (thread, filter): (&Unparker, Filter)) -> Option<usize> {
        let mut listeners = self.listeners.iter();
        listeners.position(|one| one.unparker.same_as(thread) && one.filter == filter)
    }

    fn unparkers(&self) -> impl Iterator<Item = Unparker> {
        self.listeners
            .iter()
            .map(|listener| listener.unparker.clone())
    }
}

#[cfg(test)]
mod tests;
