//! The subscriber connection to one server. Its thread starts with the first wait there.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use parking_lot::{Condvar, MappedMutexGuard, Mutex, MutexGuard};

use super::channels::Channels;
use crate::base::{Moment, Unparker, wait_for_state};
use crate::observe::Observer;
use crate::protocol::message::Filter;
use crate::request::RedisClient;
use crate::script::Publish;
use crate::transport::link::Link;
use crate::transport::server::Server;

/// The largest number of channels in a command. It bounds its size.
const BATCH: usize = 1_000;

/// What all subscriber connections of a client use.
pub(super) struct Context {
    pub(super) redis: Arc<RedisClient>,
    pub(super) observer: Arc<Observer>,
    /// A channel of this client alone. Others call the client on it, or tell of a lock of it that
    /// `force_unlock` has freed.
    pub(super) control: Arc<str>,
    /// One of the connections is or was [deaf](SubscriberConnection::is_deaf), or Redis refused a
    /// channel.
    pub(super) any_deaf: AtomicBool,
    pub(super) on: Handlers,
}

type OnFreed = Box<dyn Fn(&HashSet<&str>) + Send + Sync>;

type OnUnanswered = Box<dyn Fn(&str, &str) + Send + Sync>;

/// What the subscriber thread calls for messages that no waiting thread handles.
pub(crate) struct Handlers {
    /// Called with the keys of locks of this client that other clients have freed by
    /// `force_unlock`.
    pub(crate) freed: OnFreed,
    /// Called with the key of a lock for which the client was called, and its place in the line, if
    /// no thread has answered.
    pub(crate) unanswered: OnUnanswered,
}

/// What one subscriber thread shares with the threads that wait.
pub(super) struct SubscriberConnection {
    pub(super) server: Arc<Server>,
    pub(super) context: Arc<Context>,
    pub(super) state: Mutex<ConnectionState>,
    /// The client could not subscribe when it last tried, so it receives no calls.
    pub(super) is_deaf: AtomicBool,
    /// The thread is to end, or has ended.
    pub(super) stopped: Condvar,
}

/// Its mutex protects these invariants:
///
/// * At most one thread runs. If it ends because no thread waits, it clears `is_running` before
///   the next channel can be added.
/// * Commands are sent in the order in which their replies are awaited. The thread that adds a
///   channel sends the command, and the subscriber thread receives the reply.
#[derive(Debug, Default)]
pub(super) struct ConnectionState {
    pub(super) channels: Channels,
    /// The current connection, and what was requested on it.
    pub(super) link: Option<Arc<Link>>,
    pub(super) requested: VecDeque<Requested>,
    pub(super) is_running: bool,
    pub(super) is_stopped: bool,
    pub(super) thread: Option<JoinHandle<()>>,
}

/// A channel in a command whose reply has not arrived.
#[derive(Debug)]
pub(super) struct Requested {
    pub(super) command: &'static str,
    pub(super) channel: Arc<str>,
    /// How many channels of the same command come after it.
    pub(super) more: usize,
    pub(super) at: Moment,
}

impl ConnectionState {
    /// Sends this command for all of these channels, for `together` of them at a time.
    pub(super) fn send(&mut self, command: &'static str, channels: &[Arc<str>], together: usize) {
        let Some(link) = self.link.as_ref().filter(|_| !channels.is_empty()) else {
            // Between two connections no channel is subscribed, and each is wanted on the next one.
            return;
        };
        let at = Moment::now();
        let mut commands = redis::pipe();
        for channels in channels.chunks(together) {
            let names: Vec<&str> = channels.iter().map(|channel| &**channel).collect();
            commands.cmd(command).arg(names);
            let numbered = channels.iter().zip((0..channels.len()).rev());
            self.requested
                .extend(numbered.map(|(channel, more)| Requested {
                    command,
                    channel: Arc::clone(channel),
                    more,
                    at,
                }));
        }
        let packed = commands.get_packed_pipeline();
        link.send(0, at, |out| out.commands(0, &packed));
    }

    /// Subscribes the wanted channels, once there is a connection.
    pub(super) fn subscribe_wanted(&mut self) {
        if self.channels.is_connected() {
            let wanted = self.channels.take_wanted();
            self.send_as_published(["SUBSCRIBE", "SSUBSCRIBE"], &wanted);
        }
    }

    /// Sends commands about the channels of locks: the first of these, or the second for shard
    /// channels. In a cluster, the shard channels of a command have to be of one slot.
    pub(super) fn send_as_published(&mut self, commands: [&'static str; 2], channels: &[Arc<str>]) {
        match self.link.as_ref().map(|link| link.publish) {
            Some(Publish::ToAll) => self.send(commands[0], channels, BATCH),
            Some(Publish::ToShard) => self.send(commands[1], channels, 1),
            None => {}
        }
    }

    /// Takes the request to which this is the reply, if it is the next one.
    pub(super) fn take_requested(&mut self, kind: &str, channel: &str) -> bool {
        let is_reply = self.requested.front().is_some_and(|requested| {
            let expected = match requested.command {
                "PING" => "pong",
                command => command,
            };
            expected.eq_ignore_ascii_case(kind) && *requested.channel == *channel
        });
        is_reply && self.requested.pop_front().is_some()
    }
}

impl SubscriberConnection {
    pub(super) fn new(server: Arc<Server>, context: Arc<Context>) -> Self {
        Self {
            server,
            context,
            state: Mutex::default(),
            is_deaf: AtomicBool::new(false),
            stopped: Condvar::new(),
        }
    }

    pub(super) fn is_on(&self, server: &Server) -> bool {
        self.server.name() == server.name()
    }

    /// The channels, under the mutex.
    pub(super) fn channels(&self) -> MappedMutexGuard<'_, Channels> {
        MutexGuard::map(self.state.lock(), |state| &mut state.channels)
    }

    pub(super) fn add(
        self: &Arc<Self>,
        channel: &Arc<str>,
        filter: Filter,
        unparker: &Unparker,
        since: Option<Moment>,
    ) {
        let mut state = self.state.lock();
        if state.channels.add(channel, unparker.clone(), filter, since) {
            unparker.unpark();
        }
        // By this thread, because the subscriber's thread may be in a read.
        state.subscribe_wanted();
        self.start(state);
    }

    /// Makes the thread end.
    pub(super) fn stop(&self) {
        let link = {
            let mut state = self.state.lock();
            state.is_stopped = true;
            state.link.take()
        };
        // The thread is in a pause, or in a read, which the end of the link ends.
        self.stopped.notify_all();
        if let Some(link) = link {
            link.end(&io::Error::from(io::ErrorKind::ConnectionAborted).into());
        }
    }

    /// Waits until the thread has ended, after [`stop`](Self::stop), at most until this moment.
    /// True if it has.
    pub(super) fn join_until(&self, until: Moment) -> bool {
        let Self { state, stopped, .. } = self;
        let has_ended =
            wait_for_state(stopped, &mut state.lock(), until, |state| !state.is_running);
        if has_ended {
            self.join();
        }
        has_ended
    }

    /// Waits for the thread, after [`stop`](Self::stop).
    pub(super) fn join(&self) {
        let thread = self.state.lock().thread.take();
        // The result does not matter: the thread catches panics and logs errors.
        thread.map(JoinHandle::join);
    }
}
