//! Wake-up: threads that listen for the releases that other clients publish.
//!
//! A message is a hint: it makes a waiting thread try to acquire the lock. A missed message costs
//! time but never progress: a waiting thread also tries when the lease that Redis reported is over,
//! the watchdog looks after the line in which it waits, and without a subscription it asks often.

mod channels;
mod connection;
mod thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::base::{LockKey, Moment, Process, Unparker};
use crate::observe::Observer;
use crate::protocol::Verdict;
use crate::protocol::message::{self, Filter};
use crate::request::{Prepared, RedisClient};
use crate::topology::Topology;
use crate::transport::server::Server;
pub(crate) use connection::Handlers;
use connection::{Context, SubscriberConnection};

/// The subscriber connections of a client: one for each server that has a lock for which a thread
/// has waited.
pub(crate) struct Subscriber {
    context: Arc<Context>,
    /// Its mutex protects: a server has at most one connection, and no thread starts after the
    /// client is shut down.
    connections: Mutex<Connections>,
    /// True once `connections` has an element. Read without the mutex.
    started: AtomicBool,
    process: Process,
}

#[derive(Default)]
struct Connections {
    list: Vec<Arc<SubscriberConnection>>,
    /// The client is shut down.
    is_stopped: bool,
}

impl Connections {
    fn to(&self, server: &Server) -> Option<Arc<SubscriberConnection>> {
        let mut connections = self.list.iter();
        connections.find(|one| one.is_on(server)).cloned()
    }
}

/// The registration of one waiting thread for the messages of one channel.
pub(crate) struct Listener {
    /// `None` if the server that has the lock is not known. Then no message arrives.
    connection: Option<Arc<SubscriberConnection>>,
    channel: Arc<str>,
    unparker: Unparker,
    filter: Filter,
}

impl Subscriber {
    pub(crate) fn new(
        redis: Arc<RedisClient>,
        observer: Arc<Observer>,
        control: Arc<str>,
        on: Handlers,
    ) -> Self {
        Self {
            context: Arc::new(Context {
                redis,
                observer,
                control,
                any_deaf: AtomicBool::new(false),
                on,
            }),
            connections: Mutex::default(),
            started: AtomicBool::new(false),
            process: Process::current(),
        }
    }

    /// The place in the line of a lock of the client whose owner ids begin with `client`: the
    /// channel on which it is called. In a cluster, the channel has to be in the slot of the lock.
    pub(crate) fn place(&self, key: &LockKey, client: &str) -> Arc<str> {
        match self.topology().has_slots() {
            true => format!("{}:{client}", key.channel()).into(),
            false => Arc::clone(&self.context.control),
        }
    }

    /// A place of this client as it stands in a line: with a mark if the client receives no calls
    /// (`lua/shared/line.lua`).
    pub(crate) fn in_line(&self, key: &LockKey, place: &Arc<str>) -> Arc<str> {
        match self.is_deaf(key, place) {
            true => message::deaf(place),
            false => Arc::clone(place),
        }
    }

    /// True if the client could not subscribe to this channel when it last tried at the server that
    /// has the lock, so it receives no calls there.
    pub(crate) fn is_deaf(&self, key: &LockKey, channel: &str) -> bool {
        self.context.any_deaf.load(Ordering::Relaxed)
            && self.connection(key).is_some_and(|connection| {
                connection.is_deaf.load(Ordering::Relaxed)
                    || connection.channels().is_refused(channel)
            })
    }

    /// The name under which a thread listens to the calls of its client, which has this place.
    pub(crate) fn call_name(&self, key: &LockKey, place: &Arc<str>) -> Arc<str> {
        match *place == self.context.control {
            true => message::call_of(key.key()),
            false => Arc::clone(place),
        }
    }

    /// The client may be called in the line of this lock, in which it has this place, although no
    /// thread listens for that: it wants several locks, or a late copy of a request enters the
    /// line.
    pub(crate) fn expect_call(&self, key: &LockKey, place: &Arc<str>) {
        if let Some(connection) = self.connection(key) {
            let name = self.call_name(key, place);
            connection.channels().expect_call(name);
        }
    }

    /// Registers `unparker` for this channel. Each message that the filter accepts unparks it. So
    /// does the confirmation of the subscription: earlier messages were missed, so the caller must
    /// try to acquire the lock then. A thread that has tried after the moment `since`, or tries
    /// now, needs no earlier message.
    pub(crate) fn listen(
        &self,
        (key, name): (&LockKey, &Arc<str>),
        filter: Filter,
        unparker: &Unparker,
        since: Option<Moment>,
    ) -> Listener {
        let server = self.topology().known(key);
        let connection = server.map(|server| self.connection_to(server));
        if let Some(connection) = &connection {
            connection.add(name, filter, unparker, since);
        }
        Listener {
            connection,
            channel: Arc::clone(name),
            unparker: unparker.clone(),
            filter,
        }
    }

    /// True if the listener is registered at the server that has the lock, or if that server is not
    /// known.
    pub(crate) fn is_in_place(&self, listener: &Listener, key: &LockKey) -> bool {
        match (self.topology().known(key), &listener.connection) {
            (Some(server), Some(connection)) => {
                connection.is_on(&server)
                    && connection
                        .channels()
                        .has(&listener.channel, listener.identity())
            }
            (Some(_), None) => false,
            (None, _) => true,
        }
    }

    /// True if this channel of the lock is subscribed, so that its messages are also sent to this
    /// client.
    pub(crate) fn is_live(&self, key: &LockKey, name: &str) -> bool {
        let connection = self.connection(key);
        connection.is_some_and(|connection| connection.channels().is_live(name))
    }

    /// Subtracts this client from those that received the message of a release.
    pub(crate) fn without_own(&self, key: &LockKey, mut verdict: Verdict) -> Verdict {
        if let Verdict::Done { listeners, .. } = &mut verdict {
            let own = u32::from(self.is_live(key, key.channel()));
            *listeners = listeners.map(|listeners| listeners.saturating_sub(own));
        }
        verdict
    }

    fn topology(&self) -> &Topology {
        &self.context.redis.topology
    }

    /// The connection to the server that has the lock, if there is one.
    fn connection(&self, key: &LockKey) -> Option<Arc<SubscriberConnection>> {
        if !self.started.load(Ordering::Acquire) {
            return None;
        }
        let server = self.topology().known(key)?;
        self.connections.lock().to(&server)
    }

    fn connection_to(&self, server: Arc<Server>) -> Arc<SubscriberConnection> {
        let mut connections = self.connections.lock();
        if let Some(connection) = connections.to(&server) {
            return connection;
        }
        // Connections to servers that are gone. A connection that a listener still has may start
        // its thread again.
        let is_unused = |connection: &mut Arc<SubscriberConnection>| {
            Arc::get_mut(connection)
                .is_some_and(|connection| !connection.state.get_mut().is_running)
        };
        let unused: Vec<_> = connections.list.extract_if(.., is_unused).collect();
        let connection = Arc::new(SubscriberConnection::new(server, Arc::clone(&self.context)));
        if connections.is_stopped {
            // Its thread never starts, so this sends nothing.
            connection.stop();
        }
        connections.list.push(Arc::clone(&connection));
        self.started.store(true, Ordering::Release);
        // Without the mutex, because a join waits for a thread.
        drop(connections);
        unused.iter().for_each(|connection| connection.join());
        connection
    }
}

impl Subscriber {
    /// Makes all threads end. From now on waiting threads poll.
    pub(crate) fn stop(&self) {
        let connections = {
            let mut connections = self.connections.lock();
            connections.is_stopped = true;
            connections.list.clone()
        };
        connections.iter().for_each(|connection| connection.stop());
    }

    /// Waits until all threads have ended, at most until this moment. True if they have.
    pub(crate) fn join(&self, until: Moment) -> bool {
        let connections = self.connections.lock().list.clone();
        connections
            .iter()
            .fold(true, |all, connection| all & connection.join_until(until))
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let connections = std::mem::take(&mut self.connections.get_mut().list);
        if !self.process.is_current() {
            // A forked child has the handles of these threads, but not the threads.
            std::mem::forget(connections);
            return;
        }
        // All threads end at the same time.
        connections.iter().for_each(|connection| connection.stop());
        connections.iter().for_each(|connection| connection.join());
    }
}

impl Listener {
    /// What distinguishes this listener from the others of its channel.
    fn identity(&self) -> (&Unparker, Filter) {
        (&self.unparker, self.filter)
    }

    /// Sets the request that is sent when the next message arrives.
    pub(crate) fn prepare(&self, request: Arc<Prepared>) {
        if let Some(connection) = &self.connection {
            let mut channels = connection.channels();
            let earlier = channels.prepare(&self.channel, self.identity(), request);
            // First the mutex: the request may have the last reference to a link.
            drop(channels);
            drop(earlier);
        }
    }

    /// True if the channel is subscribed. Without a subscription the thread has to poll.
    pub(crate) fn is_live(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|connection| connection.channels().is_live(&self.channel))
    }

    /// True if the server has not replied to the subscription yet. Its reply wakes the thread.
    pub(crate) fn is_coming(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| {
            let state = connection.state.lock();
            state.is_running && state.channels.is_coming(&self.channel)
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            let now = Moment::now();
            let mut channels = connection.channels();
            let removed = channels.remove(&self.channel, self.identity(), now);
            // First the mutex: the listener's request may have the last reference to a link.
            drop(channels);
            drop(removed);
        }
    }
}
