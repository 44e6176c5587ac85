//! The subscriber connection to one server. Its thread starts with the first wait there.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, MappedMutexGuard, Mutex, MutexGuard};

use super::channels::{Added, Channels};
use crate::base::clock::Moment;
use crate::base::parker::Unparker;
use crate::base::wait::wait_until;
use crate::observe::{Observer, tell};
use crate::request::RedisClient;
use crate::transport::server::Server;

/// What all subscriber connections of a client use.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) redis: Arc<RedisClient>,
    pub(super) observer: Arc<Observer>,
    /// A channel of this client alone. An empty message on it ends a thread's read. Others call the
    /// client, or tell of a lock of it that `force_unlock` has freed.
    pub(super) control: Arc<str>,
    pub(super) on: Handlers,
}

type OnUnanswered = Box<dyn Fn(&str, &str) + Send + Sync>;

/// What the subscriber thread calls for messages that no waiting thread handles.
pub(crate) struct Handlers {
    /// With the key of a lock of this client that another client has freed by `force_unlock`.
    pub(crate) freed: Box<dyn Fn(&str) + Send + Sync>,
    /// With the key of a lock for which the client was called, and its place in the line. No thread
    /// has answered.
    pub(crate) unanswered: OnUnanswered,
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").finish_non_exhaustive()
    }
}

/// What one subscriber thread shares with the threads that wait.
#[derive(Debug)]
pub(super) struct SubscriberConnection {
    pub(super) server: Arc<Server>,
    pub(super) context: Arc<Context>,
    pub(super) state: Mutex<ThreadState>,
    /// The thread is to end, or has ended.
    pub(super) stopped: Condvar,
    /// Its mutex protects: at most one thread runs.
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
}

/// Its mutex protects two invariants:
///
/// * No new channel stays unseen. A thread that adds one while the subscriber thread reads, or is
///   about to read, interrupts that read. The subscriber thread sees an earlier one before it
///   reads.
/// * A subscriber thread that ends because no thread waits clears `running` before the next
///   channel can be added.
#[derive(Debug, Default)]
pub(super) struct ThreadState {
    pub(super) channels: Channels,
    pub(super) running: bool,
    pub(super) reading: bool,
    pub(super) stop: bool,
}

impl SubscriberConnection {
    pub(super) fn new(server: Arc<Server>, context: Arc<Context>) -> Self {
        Self {
            server,
            context,
            state: Mutex::default(),
            stopped: Condvar::new(),
            thread: Mutex::default(),
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
        word: Option<&str>,
        unparker: &Unparker,
        (since, time): (Option<Moment>, Duration),
    ) {
        let (interrupt, idle) = {
            let mut state = self.state.lock();
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
            self.interrupt_read(time);
        }
    }

    /// Makes the subscriber thread see a new channel at once. If this fails, the thread sees it
    /// when its read times out.
    fn interrupt_read(&self, time: Duration) {
        let Context { redis, control, .. } = &*self.context;
        if let Err(error) = redis.publish(&self.server, ("PUBLISH", control, ""), time) {
            tell(move || {
                tracing::debug!(?error, "could not interrupt the subscriber's read");
            });
        }
    }

    /// Makes the thread end, and takes at most `time` for that.
    pub(super) fn stop(&self, time: Duration) {
        let interrupt = {
            let mut state = self.state.lock();
            state.stop = true;
            std::mem::take(&mut state.reading)
        };
        self.stopped.notify_all();
        if interrupt {
            self.interrupt_read(time);
        }
    }

    /// Waits until the thread has ended, after [`stop`](Self::stop), at most until this moment.
    /// True if it has.
    pub(super) fn join_until(&self, until: Moment) -> bool {
        let Self { state, stopped, .. } = self;
        let has_ended = wait_until(stopped, &mut state.lock(), until, |state| !state.running);
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
