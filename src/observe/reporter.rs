//! Calls the application's log subscriber and metrics recorder.
//!
//! These may block: a full pipe behind standard output is enough. A thread of the application calls
//! them directly, so that its spans apply. A thread of the client never calls them: it queues the
//! call for the reporter, so that no renewal and no wake-up waits for them.

use std::cell::OnceCell;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle, ThreadId};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Condvar, Mutex};

use super::counters::Series;
use crate::base::process::Process;

/// The number of queued calls above which further ones are dropped and counted.
const CAPACITY: usize = 16_384;

/// How long the drop of a client waits for queued calls.
const LAST_CALLS: Duration = Duration::from_millis(250);

type Call = Box<dyn FnOnce() + Send>;

thread_local! {
    /// On a thread of a client: the queue for its calls.
    static QUEUE: OnceCell<Arc<Queue>> = const { OnceCell::new() };
}

/// Calls the log subscriber or the metrics recorder: directly on a thread of the application, else
/// through the reporter. Never call this while a mutex is locked.
pub(crate) fn tell(call: impl FnOnce() + Send + 'static) {
    match queue() {
        Some(queue) => queue.push(Box::new(call)),
        None => run(call),
    }
}

/// Adds `n` to a counter of the metrics recorder.
pub(super) fn count(series: Series, n: u64) {
    match queue() {
        Some(queue) => queue.count(series, n),
        None => run(|| series.record(n)),
    }
}

fn queue() -> Option<Arc<Queue>> {
    // A thread that has destroyed its variables is not a thread of a client.
    QUEUE.try_with(|queue| queue.get().cloned()).ok().flatten()
}

/// Calls code of the application. A panic there ends with this call.
fn run(call: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(call));
}

/// What the threads of a client have for the reporter.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

/// Its mutex protects: the reporter sleeps only while nothing is queued, and ends only after it
/// took everything that was queued before `stop`.
#[derive(Default)]
struct State {
    queued: Queued,
    stop: bool,
}

#[derive(Default)]
struct Queued {
    calls: Vec<Call>,
    /// Increments are summed up, so that none is dropped.
    counts: Vec<(Series, u64)>,
    /// Calls for which there was no room.
    dropped: u64,
}

impl Queue {
    /// Starts a thread of the client, which calls no code of the application.
    pub(super) fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let queue = Arc::clone(self);
        Builder::new().name(name.into()).spawn(move || {
            let _ = QUEUE.with(|own| own.set(queue));
            body();
        })
    }

    fn push(&self, call: Call) {
        let mut state = self.state.lock();
        if state.queued.calls.len() == CAPACITY {
            state.queued.dropped += 1;
        } else {
            state.queued.calls.push(call);
            self.changed.notify_one();
        }
    }

    fn count(&self, series: Series, n: u64) {
        let counts = &mut self.state.lock().queued.counts;
        match counts.iter_mut().find(|(other, _)| *other == series) {
            Some((_, sum)) => *sum += n,
            None => counts.push((series, n)),
        }
        self.changed.notify_one();
    }

    /// Waits for something to do; `None`: all is done and the client is gone.
    fn next(&self) -> Option<Queued> {
        let mut state = self.state.lock();
        while state.queued.is_empty() {
            if state.stop {
                return None;
            }
            self.changed.wait(&mut state);
        }
        Some(std::mem::take(&mut state.queued))
    }
}

impl Queued {
    fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.counts.is_empty() && self.dropped == 0
    }

    /// Calls everything, in the order in which it was queued.
    fn run(self) {
        for (series, n) in self.counts {
            run(|| series.record(n));
        }
        self.calls.into_iter().for_each(run);
        let dropped = self.dropped;
        if dropped > 0 {
            run(|| {
                tracing::warn!(
                    dropped,
                    "log lines and samples were dropped: the log blocked"
                );
            });
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

/// The thread that makes the queued calls. Dropped, it ends when they are made.
#[derive(Debug)]
pub(crate) struct Reporter {
    queue: Arc<Queue>,
    thread: ThreadId,
    /// Disconnected when all calls are made.
    done: Receiver<Infallible>,
    process: Process,
}

impl Reporter {
    pub(super) fn start(queue: Arc<Queue>) -> io::Result<Self> {
        let (sender, done) = bounded(0);
        let calls = Arc::clone(&queue);
        let thread = Builder::new().name("leasehold-reporter".into());
        // Never joined: its end waits for destructors of the application's thread-local variables.
        let thread = thread.spawn(move || {
            let _done: Sender<Infallible> = sender;
            while let Some(queued) = calls.next() {
                queued.run();
            }
        })?;
        Ok(Self {
            queue,
            thread: thread.thread().id(),
            done,
            process: Process::current(),
        })
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // There is no such thread here, and its mutexes may be locked.
            std::mem::forget(std::mem::replace(
                &mut self.done,
                crossbeam_channel::never(),
            ));
            return;
        }
        self.queue.state.lock().stop = true;
        self.queue.changed.notify_one();
        // The client can be dropped by the code that the reporter calls.
        if std::thread::current().id() != self.thread {
            let _ = self.done.recv_timeout(LAST_CALLS);
        }
    }
}

#[cfg(test)]
mod tests;
