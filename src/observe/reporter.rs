//! Calls the application's log subscriber and metrics recorder.
//!
//! These may block, for example on a full pipe behind standard output. A thread of the application
//! calls them directly, so that its spans apply. A thread of the client queues the call for the
//! reporter, so that no renewal and no wake-up waits for them.
//!
//! The reporter is never joined, because that code may drop the last client.

use std::cell::OnceCell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use foldhash::HashMap;
use parking_lot::{Condvar, Mutex};

use super::series::Series;
use crate::base::callback_thread::CallbackThread;

/// The most queued calls. Further calls are dropped and counted.
const CAPACITY: usize = 16_384;

/// How long the drop of a client waits for queued calls.
const LAST_CALLS: Duration = Duration::from_millis(250);

thread_local! {
    /// The queue for the calls of this thread. Set on the threads of a client only.
    static QUEUE: OnceCell<Arc<Queue>> = const { OnceCell::new() };
}

/// Calls the log subscriber or the metrics recorder: directly on a thread of the application,
/// through the reporter on a thread of the client. Never call this while a mutex is locked.
pub(crate) fn tell(call: impl FnOnce() + Send + 'static) {
    match queue() {
        Some(queue) => queue.push(Box::new(call)),
        None => run(call),
    }
}

/// Adds `n` to a counter or a gauge of the metrics recorder.
pub(super) fn count(series: Series, n: i64) {
    match queue() {
        Some(queue) => queue.count(series, n),
        None => run(|| series.record(n)),
    }
}

/// True on the threads of clients.
pub(super) fn is_own_thread() -> bool {
    queue().is_some()
}

fn queue() -> Option<Arc<Queue>> {
    // A thread without thread-local variables is ending, and is not a thread of a client.
    QUEUE.try_with(|queue| queue.get().cloned()).ok().flatten()
}

/// Calls code of the application, and catches its panics.
pub(super) fn run(call: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(call));
}

/// The calls that the threads of a client have queued for the reporter.
#[derive(Default)]
pub(crate) struct Queue {
    queued: Mutex<Queued>,
    changed: Condvar,
}

/// Its mutex protects: the reporter sleeps only while nothing is queued, and ends only after it has
/// taken everything that was queued before `stop`.
#[derive(Default)]
struct Queued {
    calls: Vec<Box<dyn FnOnce() + Send>>,
    /// Changes of counters and gauges. They are added up, so that none is dropped.
    counts: HashMap<Series, i64>,
    /// The number of calls for which there was no room.
    dropped: u64,
    stop: bool,
}

impl Queue {
    /// Starts a thread of the client, whose calls are queued.
    pub(crate) fn spawn(
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

    fn push(&self, call: Box<dyn FnOnce() + Send>) {
        let mut queued = self.queued.lock();
        if queued.calls.len() == CAPACITY {
            queued.dropped += 1;
        } else {
            queued.calls.push(call);
            self.changed.notify_one();
        }
    }

    fn count(&self, series: Series, n: i64) {
        *self.queued.lock().counts.entry(series).or_default() += n;
        self.changed.notify_one();
    }

    /// Waits for queued calls, or for the end of the client.
    fn next(&self) -> Queued {
        let mut queued = self.queued.lock();
        while queued.calls.is_empty() && queued.counts.is_empty() && !queued.stop {
            self.changed.wait(&mut queued);
        }
        std::mem::take(&mut *queued)
    }
}

impl Queued {
    /// Makes all calls, in the order in which they were queued. Returns whether the client has
    /// ended.
    fn run(self) -> bool {
        for (series, n) in self.counts {
            run(|| series.record(n));
        }
        self.calls.into_iter().for_each(run);
        let dropped = self.dropped;
        if dropped > 0 {
            run(|| {
                tracing::warn!(
                    dropped,
                    "log lines and samples were dropped because the log blocked"
                );
            });
        }
        self.stop
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

/// The thread that makes the queued calls. After a drop it makes the remaining calls and ends.
#[derive(Debug)]
pub(crate) struct Reporter {
    queue: Arc<Queue>,
    thread: CallbackThread,
}

impl Reporter {
    pub(crate) fn start(queue: Arc<Queue>) -> io::Result<Self> {
        let calls = Arc::clone(&queue);
        let thread = CallbackThread::start(|done| {
            let thread = Builder::new().name("leasehold-reporter".into());
            thread.spawn(move || {
                let _done = done;
                while !calls.next().run() {}
            })
        })?;
        Ok(Self { queue, thread })
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.thread.end(|| {
            self.queue.queued.lock().stop = true;
            self.queue.changed.notify_one();
            LAST_CALLS
        });
    }
}

#[cfg(test)]
mod tests;
