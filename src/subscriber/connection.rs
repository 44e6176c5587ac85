//! The face of one listening thread, which starts with the first wait at its server.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::channels::Registry;
use super::thread::Worker;
use crate::base::clock::Moment;
use crate::base::parker::Unparker;
use crate::observe::{Observer, tell};
use crate::request::RedisClient;
use crate::transport::server::Server;

/// What the interrupt of the thread's read may cost the thread that wants to wait.
const HINT_TIMEOUT: Duration = Duration::from_millis(250);

/// What all ears of a client have in common.
#[derive(Debug)]
pub(super) struct Means {
    pub(super) redis: Arc<RedisClient>,
    pub(super) observer: Arc<Observer>,
    /// Ours alone: a message on it ends a thread's read.
    pub(super) control: Arc<str>,
    pub(super) connect_timeout: Duration,
    pub(super) command_timeout: Duration,
}

#[derive(Debug)]
pub(super) struct SubscriberConnection {
    shared: Arc<Shared>,
    means: Arc<Means>,
    /// Protects: at most one thread runs.
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) server: Arc<Server>,
    pub(super) state: Mutex<State>,
    /// Ends the pause before the next attempt to connect.
    pub(super) stopped: Condvar,
}

/// Its mutex protects: a channel that is added while the thread is about to read, or reads, has its
/// adder interrupt that read; one that is added before is seen before the read. And a thread that ends
/// because nobody listens has said so before the next channel is added.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) registry: Registry,
    pub(super) running: bool,
    pub(super) reading: bool,
    pub(super) stop: bool,
}

impl SubscriberConnection {
    pub(super) fn new(server: Arc<Server>, means: Arc<Means>) -> Self {
        Self {
            shared: Arc::new(Shared {
                server,
                state: Mutex::default(),
                stopped: Condvar::new(),
            }),
            means,
            thread: Mutex::new(None),
        }
    }

    pub(super) fn is_on(&self, server: &Server) -> bool {
        self.shared.server.name() == server.name()
    }

    pub(super) fn is_live(&self, channel: &str) -> bool {
        self.shared.state.lock().registry.is_live(channel)
    }

    /// Whether this listener is told of messages here: not any more once the channel has moved away.
    pub(super) fn has(&self, channel: &str, unparker: &Unparker) -> bool {
        self.shared.state.lock().registry.has(channel, unparker)
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.shared.state.lock().running
    }

    /// Adds the listener if its channel is subscribed already.
    pub(super) fn add_if_live<'a>(
        &self,
        channel: &Arc<str>,
        unparker: impl FnOnce() -> &'a Unparker,
    ) -> Option<Unparker> {
        let mut state = self.shared.state.lock();
        if !state.registry.is_live(channel) {
            return None;
        }
        let unparker = unparker().clone();
        state.registry.add(channel, unparker.clone());
        Some(unparker)
    }

    pub(super) fn add(&self, channel: &Arc<str>, unparker: &Unparker, time: Duration) {
        let (interrupt, idle) = {
            let mut state = self.shared.state.lock();
            let wanted = state.registry.add(channel, unparker.clone());
            if !wanted {
                unparker.unpark();
            }
            let interrupt = wanted && std::mem::take(&mut state.reading);
            (interrupt, !state.running)
        };
        if idle {
            self.start();
        }
        if interrupt {
            self.interrupt_read(time.min(HINT_TIMEOUT));
        }
    }

    pub(super) fn remove(&self, channel: &str, unparker: &Unparker) {
        let now = Moment::now();
        let removed = self
            .shared
            .state
            .lock()
            .registry
            .remove(channel, unparker, now);
        drop(removed);
    }

    /// Without this the thread looks up by itself, a little later.
    fn interrupt_read(&self, time: Duration) {
        let Means { redis, control, .. } = &*self.means;
        if let Err(error) = redis.publish(&self.shared.server, "PUBLISH", control, "", time) {
            tell(move || {
                tracing::debug!(?error, "the subscriber could not be told of a new channel");
            });
        }
    }

    fn start(&self) {
        let mut thread = self.thread.lock();
        {
            let mut state = self.shared.state.lock();
            if state.running || state.stop {
                return;
            }
            state.running = true;
        }
        let worker = Worker::new(Arc::clone(&self.shared), Arc::clone(&self.means));
        let observer = &self.means.observer;
        match observer.spawn("leasehold-subscriber", move || worker.run()) {
            Ok(handle) => {
                let ended = thread.replace(handle);
                drop(thread);
                // It has said that it ends, and does nothing any more.
                ended.map(JoinHandle::join);
            }
            // Waiting goes on by polling, and the next wait tries again.
            Err(error) => {
                self.shared.state.lock().running = false;
                drop(thread);
                tell(move || tracing::warn!(%error, "the subscriber thread could not be started"));
            }
        }
    }

    /// Has the thread end.
    pub(super) fn stop(&self) {
        let interrupt = {
            let mut state = self.shared.state.lock();
            state.stop = true;
            std::mem::take(&mut state.reading)
        };
        self.shared.stopped.notify_one();
        if interrupt {
            self.interrupt_read(HINT_TIMEOUT);
        }
    }

    /// Waits for the thread, after [`stop`](Self::stop).
    pub(super) fn join(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}
