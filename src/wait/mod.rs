//! Wake-up: one thread listens, on one connection, for the releases that other processes announce.
//!
//! A message is a hint. It is worth a try, and missing it costs time but never progress: whoever
//! waits also has the lease that Redis told, and a poll where there is no subscription.

mod registry;
mod thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::Moment;
use crate::conn::{Connections, Node};
use crate::observe::{Observer, tell};
use crate::process::Process;
use crate::wake::Waker;
use registry::Registry;

/// What the interrupt of the thread's read may cost the thread that wants to wait.
const HINT_TIMEOUT: Duration = Duration::from_millis(250);

/// The face of the listening thread, which starts with the first wait.
#[derive(Debug)]
pub(crate) struct Subscriber {
    shared: Arc<Shared>,
    connections: Arc<Connections>,
    node: Arc<Node>,
    command_timeout: Duration,
    connect_timeout: Duration,
    thread: Mutex<Option<JoinHandle<()>>>,
    started: AtomicBool,
    process: Process,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Ends the pause before the next attempt to connect.
    stopped: Condvar,
    /// Ours alone: a message on it ends the thread's read.
    control: Arc<str>,
    observer: Arc<Observer>,
}

/// Its mutex protects: a channel that is added while the thread is about to read, or reads, has its
/// adder interrupt that read; one that is added before is seen before the read.
#[derive(Debug, Default)]
struct State {
    registry: Registry,
    reading: bool,
    stop: bool,
}

/// One waiting thread's ear on a channel.
#[derive(Debug)]
pub(crate) struct Listener {
    shared: Arc<Shared>,
    channel: Arc<str>,
    waker: Waker,
}

impl Subscriber {
    pub(crate) fn new(
        node: Arc<Node>,
        connections: Arc<Connections>,
        observer: Arc<Observer>,
        control: Arc<str>,
        connect_timeout: Duration,
        command_timeout: Duration,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                stopped: Condvar::new(),
                control,
                observer,
            }),
            connections,
            node,
            command_timeout,
            connect_timeout,
            thread: Mutex::new(None),
            started: AtomicBool::new(false),
            process: Process::current(),
        }
    }

    /// Listens, if that takes no subscription: from here on no release is missed.
    pub(crate) fn listen_if_live<'a>(
        &self,
        channel: &Arc<str>,
        waker: impl FnOnce() -> &'a Waker,
    ) -> Option<Listener> {
        if !self.started.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.shared.state.lock();
        if !state.registry.is_live(channel) {
            return None;
        }
        let waker = waker();
        state.registry.add(channel, waker.clone());
        drop(state);
        Some(self.listener(channel, waker))
    }

    /// Has `waker` woken by each message on the channel that falls to it, and once the subscription
    /// is confirmed: what was published before is not heard, so the lock is to be tried then. Takes
    /// no more than `time`.
    pub(crate) fn listen(&self, channel: &Arc<str>, waker: &Waker, time: Duration) -> Listener {
        self.start();
        let interrupt = {
            let mut state = self.shared.state.lock();
            let wanted = state.registry.add(channel, waker.clone());
            if !wanted {
                waker.wake();
            }
            wanted && std::mem::take(&mut state.reading)
        };
        if interrupt {
            self.interrupt_read(time.min(HINT_TIMEOUT));
        }
        self.listener(channel, waker)
    }

    fn listener(&self, channel: &Arc<str>, waker: &Waker) -> Listener {
        Listener {
            shared: Arc::clone(&self.shared),
            channel: Arc::clone(channel),
            waker: waker.clone(),
        }
    }

    /// Without this the thread looks up by itself, a little later.
    fn interrupt_read(&self, time: Duration) {
        if let Err(error) = self.connections.publish(&self.shared.control, time) {
            tell(|| tracing::debug!(?error, "the subscriber could not be told of a new channel"));
        }
    }

    fn start(&self) {
        if self.started.load(Ordering::Acquire) {
            return;
        }
        let mut thread = self.thread.lock();
        if thread.is_some() {
            return;
        }
        let worker = thread::Worker::new(
            Arc::clone(&self.shared),
            Arc::clone(&self.node),
            self.connect_timeout,
            self.command_timeout,
        );
        let spawned = std::thread::Builder::new()
            .name("leasehold-subscriber".into())
            .spawn(move || worker.run());
        match spawned {
            Ok(handle) => {
                *thread = Some(handle);
                self.started.store(true, Ordering::Release);
            }
            // Waiting goes on by polling, and the next wait tries again.
            Err(error) => {
                drop(thread);
                tell(|| tracing::warn!(%error, "the subscriber thread could not be started"));
            }
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // There is no such thread here.
            std::mem::forget(self.thread.get_mut().take());
            return;
        }
        let interrupt = {
            let mut state = self.shared.state.lock();
            state.stop = true;
            std::mem::take(&mut state.reading)
        };
        self.shared.stopped.notify_one();
        let thread = self.thread.get_mut().take();
        if let Some(thread) = thread {
            if interrupt {
                self.interrupt_read(HINT_TIMEOUT);
            }
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

impl Listener {
    /// Whether messages arrive; if not, only polling tells of a release.
    pub(crate) fn is_live(&self) -> bool {
        self.shared.state.lock().registry.is_live(&self.channel)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let now = Moment::now();
        let mut state = self.shared.state.lock();
        let removed = state.registry.remove(&self.channel, &self.waker, now);
        drop(state);
        drop(removed);
    }
}
