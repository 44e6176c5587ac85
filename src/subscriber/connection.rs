//! The face of one listening thread, which starts with the first wait at its server.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::shared::{Context, Shared};
use super::thread::SubscriberThread;
use crate::base::clock::Moment;
use crate::base::parker::Unparker;
use crate::observe::tell;
use crate::transport::server::Server;

/// What the interrupt of the thread's read may cost the thread that wants to wait.
const HINT_TIMEOUT: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct SubscriberConnection {
    shared: Arc<Shared>,
    context: Arc<Context>,
    /// Protects: at most one thread runs.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl SubscriberConnection {
    pub(super) fn new(server: Arc<Server>, context: Arc<Context>) -> Self {
        Self {
            shared: Arc::new(Shared {
                server,
                state: Mutex::default(),
                stopped: Condvar::new(),
            }),
            context,
            thread: Mutex::new(None),
        }
    }

    pub(super) fn is_on(&self, server: &Server) -> bool {
        self.shared.server.name() == server.name()
    }

    pub(super) fn is_live(&self, channel: &str) -> bool {
        self.shared.state.lock().channels.is_live(channel)
    }

    /// Whether this listener is told of messages here: not any more once the channel has moved away.
    pub(super) fn has(&self, channel: &str, unparker: &Unparker) -> bool {
        self.shared.state.lock().channels.has(channel, unparker)
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
        if !state.channels.is_live(channel) {
            return None;
        }
        let unparker = unparker().clone();
        state.channels.add(channel, unparker.clone());
        Some(unparker)
    }

    pub(super) fn add(&self, channel: &Arc<str>, unparker: &Unparker, time: Duration) {
        let (interrupt, idle) = {
            let mut state = self.shared.state.lock();
            let wanted = state.channels.add(channel, unparker.clone());
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
            .channels
            .remove(channel, unparker, now);
        drop(removed);
    }

    /// Without this the thread looks up by itself, a little later.
    fn interrupt_read(&self, time: Duration) {
        let Context { redis, control, .. } = &*self.context;
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
        let body = SubscriberThread::new(Arc::clone(&self.shared), Arc::clone(&self.context));
        let observer = &self.context.observer;
        match observer.spawn("leasehold-subscriber", move || body.run()) {
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
