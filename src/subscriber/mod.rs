//! Wake-up: threads that listen for the releases that other processes announce.
//!
//! A message is a hint. It is worth a try, and missing it costs time but never progress: whoever
//! waits also has the lease that Redis told, and a poll where there is no subscription.

mod channels;
mod connection;
mod shared;
mod thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::base::key::LockKey;
use crate::base::parker::Unparker;
use crate::base::process::Process;
use crate::observe::Observer;
use crate::request::RedisClient;
use crate::topology::Topology;
use crate::transport::server::Server;
use connection::SubscriberConnection;
use shared::Context;

/// The connections of a client: one on each server that has a lock which somebody waited for.
#[derive(Debug)]
pub(crate) struct Subscriber {
    topology: Arc<Topology>,
    context: Arc<Context>,
    /// Protects: a server has one connection.
    connections: Mutex<Vec<Arc<SubscriberConnection>>>,
    /// There is an connection.
    started: AtomicBool,
    process: Process,
}

/// One waiting thread's connection on a channel.
#[derive(Debug)]
pub(crate) struct Listener {
    /// `None`: no server is known that has the lock, so there is nothing to hear.
    connection: Option<Arc<SubscriberConnection>>,
    channel: Arc<str>,
    unparker: Unparker,
}

impl Subscriber {
    pub(crate) fn new(
        topology: Arc<Topology>,
        redis: Arc<RedisClient>,
        observer: Arc<Observer>,
        control: Arc<str>,
        connect_timeout: Duration,
        command_timeout: Duration,
    ) -> Self {
        Self {
            context: Arc::new(Context {
                redis,
                observer,
                control,
                connect_timeout,
                command_timeout,
            }),
            topology,
            connections: Mutex::default(),
            started: AtomicBool::new(false),
            process: Process::current(),
        }
    }

    /// Listens, if that takes no subscription: from here on no release is missed.
    pub(crate) fn listen_if_live<'a>(
        &self,
        key: &LockKey,
        unparker: impl FnOnce() -> &'a Unparker,
    ) -> Option<Listener> {
        if !self.started.load(Ordering::Acquire) {
            return None;
        }
        let server = self.topology.known(key)?;
        let connection = self
            .connections
            .lock()
            .iter()
            .find(|connection| connection.is_on(&server))
            .cloned()?;
        let unparker = connection.add_if_live(key.channel(), unparker)?;
        Some(Listener::new(Some(connection), key, unparker))
    }

    /// Has `unparker` woken by each message on the lock's channel that falls to it, and once the
    /// subscription is confirmed: what was published before is not heard, so the lock is to be tried
    /// then. Takes no more than `time`.
    pub(crate) fn listen(&self, key: &LockKey, unparker: &Unparker, time: Duration) -> Listener {
        let connection = self
            .topology
            .known(key)
            .map(|server| self.connection_to(server));
        if let Some(connection) = &connection {
            connection.add(key.channel(), unparker, time);
        }
        Listener::new(connection, key, unparker.clone())
    }

    /// Whether it listens at the server that has the lock, as far as is known.
    pub(crate) fn is_in_place(&self, listener: &Listener, key: &LockKey) -> bool {
        match (self.topology.known(key), &listener.connection) {
            (Some(server), Some(connection)) => {
                connection.is_on(&server) && connection.has(&listener.channel, &listener.unparker)
            }
            (Some(_), None) => false,
            (None, _) => true,
        }
    }

    fn connection_to(&self, server: Arc<Server>) -> Arc<SubscriberConnection> {
        let mut connections = self.connections.lock();
        if let Some(connection) = connections
            .iter()
            .find(|connection| connection.is_on(&server))
        {
            return Arc::clone(connection);
        }
        // Those of servers that are gone. One that anybody else has may be about to start again.
        let is_over = |connection: &mut Arc<SubscriberConnection>| {
            Arc::get_mut(connection).is_some_and(|connection| connection.is_idle())
        };
        let over: Vec<Arc<SubscriberConnection>> = connections.extract_if(.., is_over).collect();
        let connection = Arc::new(SubscriberConnection::new(server, Arc::clone(&self.context)));
        connections.push(Arc::clone(&connection));
        self.started.store(true, Ordering::Release);
        drop(connections);
        over.iter().for_each(|connection| connection.join());
        connection
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let connections = std::mem::take(self.connections.get_mut());
        if !self.process.is_current() {
            // There are no such threads here.
            std::mem::forget(connections);
            return;
        }
        // All are told before the first is waited for.
        connections.iter().for_each(|connection| connection.stop());
        connections.iter().for_each(|connection| connection.join());
    }
}

impl Listener {
    fn new(
        connection: Option<Arc<SubscriberConnection>>,
        key: &LockKey,
        unparker: Unparker,
    ) -> Self {
        Self {
            connection,
            channel: Arc::clone(key.channel()),
            unparker,
        }
    }

    /// Whether messages arrive; if not, only polling tells of a release.
    pub(crate) fn is_live(&self) -> bool {
        self.connection
            .as_ref()
            .is_some_and(|connection| connection.is_live(&self.channel))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.remove(&self.channel, &self.unparker);
        }
    }
}
