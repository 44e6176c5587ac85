//! Wake-up: threads that listen for the releases that other processes announce.
//!
//! A message is a hint. It is worth a try, and missing it costs time but never progress: whoever
//! waits also has the lease that Redis told, and a poll where there is no subscription.

mod channels;
mod connection;
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
use connection::{Means, SubscriberConnection};

/// The ears of a client: one on each server that has a lock which somebody waited for.
#[derive(Debug)]
pub(crate) struct Subscriber {
    topology: Arc<Topology>,
    means: Arc<Means>,
    /// Protects: a server has one ear.
    ears: Mutex<Vec<Arc<SubscriberConnection>>>,
    /// There is an ear.
    started: AtomicBool,
    process: Process,
}

/// One waiting thread's ear on a channel.
#[derive(Debug)]
pub(crate) struct Listener {
    /// `None`: no server is known that has the lock, so there is nothing to hear.
    ear: Option<Arc<SubscriberConnection>>,
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
            means: Arc::new(Means {
                redis,
                observer,
                control,
                connect_timeout,
                command_timeout,
            }),
            topology,
            ears: Mutex::default(),
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
        let ear = self
            .ears
            .lock()
            .iter()
            .find(|ear| ear.is_on(&server))
            .cloned()?;
        let unparker = ear.add_if_live(key.channel(), unparker)?;
        Some(Listener::new(Some(ear), key, unparker))
    }

    /// Has `unparker` woken by each message on the lock's channel that falls to it, and once the
    /// subscription is confirmed: what was published before is not heard, so the lock is to be tried
    /// then. Takes no more than `time`.
    pub(crate) fn listen(&self, key: &LockKey, unparker: &Unparker, time: Duration) -> Listener {
        let ear = self.topology.known(key).map(|server| self.ear_on(server));
        if let Some(ear) = &ear {
            ear.add(key.channel(), unparker, time);
        }
        Listener::new(ear, key, unparker.clone())
    }

    /// Whether it listens at the server that has the lock, as far as is known.
    pub(crate) fn is_in_place(&self, listener: &Listener, key: &LockKey) -> bool {
        match (self.topology.known(key), &listener.ear) {
            (Some(server), Some(ear)) => {
                ear.is_on(&server) && ear.has(&listener.channel, &listener.unparker)
            }
            (Some(_), None) => false,
            (None, _) => true,
        }
    }

    fn ear_on(&self, server: Arc<Server>) -> Arc<SubscriberConnection> {
        let mut ears = self.ears.lock();
        if let Some(ear) = ears.iter().find(|ear| ear.is_on(&server)) {
            return Arc::clone(ear);
        }
        // Those of servers that are gone. One that anybody else has may be about to start again.
        let is_over = |ear: &mut Arc<SubscriberConnection>| {
            Arc::get_mut(ear).is_some_and(|ear| ear.is_idle())
        };
        let over: Vec<Arc<SubscriberConnection>> = ears.extract_if(.., is_over).collect();
        let ear = Arc::new(SubscriberConnection::new(server, Arc::clone(&self.means)));
        ears.push(Arc::clone(&ear));
        self.started.store(true, Ordering::Release);
        drop(ears);
        over.iter().for_each(|ear| ear.join());
        ear
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let ears = std::mem::take(self.ears.get_mut());
        if !self.process.is_current() {
            // There are no such threads here.
            std::mem::forget(ears);
            return;
        }
        // All are told before the first is waited for.
        ears.iter().for_each(|ear| ear.stop());
        ears.iter().for_each(|ear| ear.join());
    }
}

impl Listener {
    fn new(ear: Option<Arc<SubscriberConnection>>, key: &LockKey, unparker: Unparker) -> Self {
        Self {
            ear,
            channel: Arc::clone(key.channel()),
            unparker,
        }
    }

    /// Whether messages arrive; if not, only polling tells of a release.
    pub(crate) fn is_live(&self) -> bool {
        self.ear
            .as_ref()
            .is_some_and(|ear| ear.is_live(&self.channel))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(ear) = &self.ear {
            ear.remove(&self.channel, &self.unparker);
        }
    }
}
