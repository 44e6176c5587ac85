//! What the commands change: the keys, and which connection listens to which channel.

use std::collections::{BTreeMap, BTreeSet};

use super::SessionId;
use super::commands;
use super::keyspace::{Failure, Keyspace};
use super::reply::Reply;

#[derive(Debug, Default)]
pub(super) struct Data {
    pub(super) keys: Keyspace,
    pub(super) channels: Channels,
    /// What scripts have called that the server does not know.
    pub(super) unknown: Vec<String>,
}

/// The channels, and the messages that are to be sent.
#[derive(Debug, Default)]
pub(super) struct Channels {
    listeners: BTreeMap<Vec<u8>, BTreeSet<SessionId>>,
    messages: Vec<(SessionId, Reply)>,
}

impl Channels {
    pub(super) fn subscribe(&mut self, session: SessionId, channel: &[u8]) {
        let listeners = self.listeners.entry(channel.to_vec());
        listeners.or_default().insert(session);
    }

    pub(super) fn unsubscribe(&mut self, session: SessionId, channel: &[u8]) {
        if let Some(listeners) = self.listeners.get_mut(channel) {
            listeners.remove(&session);
            if listeners.is_empty() {
                self.listeners.remove(channel);
            }
        }
    }

    /// The channels of a connection, in order.
    pub(super) fn of(&self, session: SessionId) -> Vec<Vec<u8>> {
        let all = self.listeners.iter();
        let own = all.filter(|(_, listeners)| listeners.contains(&session));
        own.map(|(channel, _)| channel.clone()).collect()
    }

    /// How many connections listen to the channel.
    fn listeners(&self, channel: &[u8]) -> usize {
        self.listeners.get(channel).map_or(0, BTreeSet::len)
    }

    /// Returns how many connections get the message.
    fn publish(&mut self, channel: &[u8], message: &[u8]) -> usize {
        let Some(listeners) = self.listeners.get(channel) else {
            return 0;
        };
        let parts = [&b"message"[..], channel, message].map(<[u8]>::to_vec);
        let message = Reply::texts(parts);
        let sent = listeners.iter().map(|&session| (session, message.clone()));
        self.messages.extend(sent);
        listeners.len()
    }

    pub(super) fn take_messages(&mut self) -> Vec<(SessionId, Reply)> {
        std::mem::take(&mut self.messages)
    }
}

impl Data {
    /// Runs a command that scripts can call, too. `name` is in lower case.
    pub(super) fn run(&mut self, name: &str, arguments: &[Vec<u8>]) -> Result<Reply, Failure> {
        match (name, arguments) {
            ("publish", [channel, message]) => {
                Ok(Reply::count(self.channels.publish(channel, message)))
            }
            ("pubsub", [which, channels @ ..]) if which.eq_ignore_ascii_case(b"numsub") => {
                let count = |channel: &Vec<u8>| {
                    [
                        Reply::text(channel.as_slice()),
                        Reply::count(self.channels.listeners(channel)),
                    ]
                };
                Ok(Reply::List(channels.iter().flat_map(count).collect()))
            }
            ("publish", _) => Err(commands::wrong_number(name)),
            _ => commands::run(&mut self.keys, name, arguments),
        }
    }
}
