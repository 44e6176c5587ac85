//! The subscriber connection to one server. Its thread starts with the first wait there.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::channels::Added;
use super::shared::{Context, Shared};
use super::thread::SubscriberThread;
use crate::base::clock::Moment;
use crate::base::parker::Unparker;
use crate::base::wait::wait_until;
use crate::observe::tell;
use crate::request::Prepared;
use crate::transport::server::Server;

/// The longest time that a thread that begins to wait spends on interrupting the subscriber's read.
const HINT_TIMEOUT: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct SubscriberConnection {
    shared: Arc<Shared>,
    context: Arc<Context>,
    /// Its mutex protects: at most one thread runs.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl SubscriberConnection {
    pub(super) fn new(server: Arc<Server>, context: Arc<Context>) -> Self {
        Self {
            shared: Arc::new(Shared {
                server,
                state: Mutex::default(),
                stopped: Condvar::new(),
                ended: Condvar::new(),
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

    pub(super) fn is_coming(&self, channel: &str) -> bool {
        let state = self.shared.state.lock();
        state.running && state.channels.is_coming(channel)
    }

    /// True if `unparker` is registered for the channel. False once the channel has moved to
    /// another server.
    pub(super) fn has(&self, channel: &str, unparker: &Unparker) -> bool {
        self.shared.state.lock().channels.has(channel, unparker)
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.shared.state.lock().running
    }

    /// Registers an unparker if its channel is already subscribed.
    pub(super) fn add_if_live<'a>(
        &self,
        channel: &Arc<str>,
        word: Option<&str>,
        unparker: impl FnOnce() -> &'a Unparker,
    ) -> Option<Unparker> {
        let mut state = self.shared.state.lock();
        if !state.channels.is_live(channel) {
            return None;
        }
        let unparker = unparker().clone();
        state.channels.add(channel, unparker.clone(), word, None);
        Some(unparker)
    }

    pub(super) fn add(
        &self,
        channel: &Arc<str>,
        word: Option<&str>,
        unparker: &Unparker,
        (since, time): (Option<Moment>, Duration),
    ) {
        let (interrupt, idle) = {
            let mut state = self.shared.state.lock();
            let added = state.channels.add(channel, unparker.clone(), word, since);
            if added == (Added::IsLive { has_missed: true }) {
                unparker.unpark();
            }
            let interrupt = state.channels.has_wanted() && std::mem::take(&mut state.reading);
            (interrupt, !state.running)
        };
        if idle {
            self.start();
        }
        if interrupt {
            self.interrupt_read(time.min(HINT_TIMEOUT));
        }
    }

    /// Sets the request that is sent for this listener when a message arrives.
    pub(super) fn prepare(&self, channel: &str, unparker: &Unparker, request: Arc<Prepared>) {
        let mut state = self.shared.state.lock();
        let earlier = state.channels.prepare(channel, unparker, request);
        drop(state);
        drop(earlier);
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

    /// Makes the subscriber thread see a new channel at once. If this fails, the thread sees it
    /// when its read times out.
    fn interrupt_read(&self, time: Duration) {
        let Context { redis, control, .. } = &*self.context;
        if let Err(error) = redis.publish(&self.shared.server, "PUBLISH", control, "", time) {
            tell(move || {
                tracing::debug!(?error, "could not interrupt the subscriber's read");
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
                // It has cleared `running`, which is the last thing that it does.
                ended.map(JoinHandle::join);
            }
            // Waiting threads poll, and the next wait tries to start the thread again.
            Err(error) => {
                self.shared.state.lock().running = false;
                drop(thread);
                tell(move || tracing::warn!(%error, "could not start the subscriber thread"));
            }
        }
    }

    /// Makes the thread end, and takes at most `time` for that.
    pub(super) fn stop(&self, time: Duration) {
        let interrupt = {
            let mut state = self.shared.state.lock();
            state.stop = true;
            std::mem::take(&mut state.reading)
        };
        self.shared.stopped.notify_one();
        if interrupt {
            self.interrupt_read(time.min(HINT_TIMEOUT));
        }
    }

    /// Waits until the thread has ended, after [`stop`](Self::stop), at most until this moment.
    /// True if it has.
    pub(super) fn join_until(&self, until: Moment) -> bool {
        let Shared { state, ended, .. } = &*self.shared;
        let has_ended = wait_until(ended, &mut state.lock(), until, |state| !state.running);
        if has_ended {
            self.join();
        }
        has_ended
    }

    /// Waits for the thread, after [`stop`](Self::stop).
    pub(super) fn join(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // The result does not matter: the thread catches panics and logs errors.
            let _ = thread.join();
        }
    }
}
