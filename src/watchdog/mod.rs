//! Renewal: one thread renews the leases of all locks that a client holds, and notifies a holder
//! whose lock is lost. It also releases grants that are idle for too long, and what this client may
//! hold in Redis without a grant.

mod cleanup;
mod registry;
mod target;
#[cfg(feature = "testing")]
mod testing;
#[cfg(test)]
mod tests;
mod thread;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

pub(crate) use registry::{Schedule, TargetId, next_target_id, slack};
pub(crate) use target::{Renew, Renewal, Step};

use crate::base::backoff::Backoff;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::process::Process;
use crate::base::wait::wait_until;
use crate::observe::Observer;
use crate::request::BatchClient;
use crate::script::Call;
use registry::Registry;

/// Between attempts to release an orphan.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The handle of the renewal thread. Dropping it stops the thread.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    process: Process,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<WatchdogState>,
    changed: Condvar,
    /// Set for the client of an in-memory server.
    #[cfg(feature = "testing")]
    clock: std::sync::OnceLock<Arc<crate::base::test_clock::TestClock>>,
    /// The thread has ended.
    ended: Condvar,
}

/// Its mutex protects three invariants:
///
/// * The thread handles each target when it is due. The thread decides under the mutex how long to
///   sleep, and an insertion decides under the mutex whether to end that sleep.
/// * A stored schedule is never older than the state of its target. Each thread that changes a
///   target calls `reschedule` afterwards, which reads the target's schedule under the mutex. So
///   this mutex is locked before a target's mutex, never after it.
/// * A shutdown ends every target: those that are registered when it begins, and no further one is
///   registered.
#[derive(Debug)]
struct WatchdogState {
    registry: Registry<Arc<dyn Renew>>,
    orphans: Vec<Orphan>,
    /// Targets whose hold counts have changed. The thread reads their schedules when it wakes up.
    noted: Vec<TargetId>,
    /// When the thread wakes up by itself.
    asleep_until: Moment,
    /// The client is shut down: no target is registered any more.
    is_closed: bool,
    stop: Option<Stop>,
    has_ended: bool,
}

/// How the thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The client is shut down. The thread first releases all orphans.
    ShutDown,
    /// The last handle of the client was dropped. The thread first releases what is idle, once.
    Dropped,
}

impl Default for WatchdogState {
    fn default() -> Self {
        Self {
            registry: Registry::default(),
            orphans: Vec::new(),
            noted: Vec::new(),
            asleep_until: Moment::NEVER,
            is_closed: false,
            stop: None,
            has_ended: false,
        }
    }
}

/// A lock that this client may hold in Redis although none of its threads holds it. The watchdog
/// releases it.
#[derive(Clone, Debug)]
struct Orphan {
    key: LockKey,
    /// Releases it.
    call: Call,
    due: Moment,
    pauses: Backoff,
    /// When its lease is over, so that there is nothing left to release.
    until: Moment,
}

impl Watchdog {
    pub(crate) fn start(
        batch_client: BatchClient,
        observer: Arc<Observer>,
        command_timeout: Duration,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let body = thread::WatchdogThread::new(
            Arc::clone(&shared),
            batch_client,
            Arc::clone(&observer),
            command_timeout,
        );
        let thread = observer.spawn("leasehold-watchdog", move || body.run())?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
            process: Process::current(),
        })
    }

    /// Adds a target. False after a shutdown: then nothing renews the target or releases it.
    #[must_use]
    pub(crate) fn watch(&self, id: TargetId, target: Arc<dyn Renew>) -> bool {
        let mut state = self.shared.state.lock();
        if state.is_closed {
            return false;
        }
        // Time that was skipped since the request.
        #[cfg(feature = "testing")]
        self.shared
            .clock
            .get()
            .inspect(|clock| target.skipped(clock));
        let schedule = target.schedule();
        state.registry.insert(id, target, schedule);
        self.shared.wake_by(state, schedule.due);
        true
    }

    /// Reads the target's schedule again. Must be called after each change of it. Does nothing if
    /// the target is not registered.
    pub(crate) fn reschedule(&self, id: TargetId) {
        self.shared.reschedule(id, |target| target.schedule());
    }

    /// Reads the target's schedule again when the thread wakes up, within a second.
    pub(crate) fn note(&self, id: TargetId) {
        self.shared.state.lock().noted.push(id);
    }

    /// Removes a target. Does not wait for a renewal that is on its way: it can only touch this
    /// owner's own field, and its result is ignored.
    pub(crate) fn forget(&self, id: TargetId) {
        let forgotten = self.shared.state.lock().registry.remove(id);
        drop(forgotten);
    }

    /// Releases in the background what this client may hold, by `call`. Retries until Redis replies
    /// or `until`, when the lease is over. The owner of the call must never be used again.
    pub(crate) fn release_orphan(&self, key: LockKey, call: Call, until: Moment) {
        let mut state = self.shared.state.lock();
        if state.has_ended {
            return;
        }
        state.orphans.push(Orphan::new(key, call, until));
        self.shared.wake_by(state, Moment::ZERO);
    }
}

impl Orphan {
    fn new(key: LockKey, call: Call, until: Moment) -> Self {
        Self {
            key,
            call,
            due: Moment::now(),
            pauses: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            until,
        }
    }
}

impl Shared {
    /// Stores the schedule that `ask` reads from the target.
    fn reschedule(&self, id: TargetId, ask: impl FnOnce(&dyn Renew) -> Schedule) {
        let mut state = self.state.lock();
        let due = state.registry.reschedule(id, |target| ask(&**target));
        if let Some(due) = due {
            self.wake_by(state, due);
        }
    }

    /// Wakes the thread if it would sleep beyond `due`.
    fn wake_by(&self, state: parking_lot::MutexGuard<'_, WatchdogState>, due: Moment) {
        let wake = due < state.asleep_until;
        drop(state);
        if wake {
            self.changed.notify_one();
        }
    }
}

impl Watchdog {
    /// Ends all targets, also those that threads use, and releases them in the background. From
    /// now on no target can be added.
    pub(crate) fn release_all(&self) {
        let targets = {
            let mut state = self.shared.state.lock();
            state.is_closed = true;
            state.registry.take_all()
        };
        for target in targets {
            if let Some(call) = target.shut_down() {
                self.release_orphan(target.key().clone(), call, target.lease_ends());
            }
        }
    }

    /// Makes the thread end as soon as all orphans are released, or their leases are over.
    pub(crate) fn stop(&self) {
        self.stop_by(Stop::ShutDown);
    }

    /// Waits until the thread has ended, at most until this moment. True if it has.
    pub(crate) fn join(&self, until: Moment) -> bool {
        let Shared { state, ended, .. } = &*self.shared;
        let has_ended = wait_until(ended, &mut state.lock(), until, |state| state.has_ended);
        if has_ended {
            self.join_thread();
        }
        has_ended
    }

    /// The number of orphans that are not released.
    pub(crate) fn unreleased(&self) -> usize {
        self.shared.state.lock().orphans.len()
    }

    /// Ends the thread, which releases the idle grants first.
    pub(crate) fn end(&mut self) {
        if !self.process.is_current() {
            // A forked child has the handle of this thread, but not the thread.
            std::mem::forget(self.thread.get_mut().take());
            return;
        }
        self.stop_by(Stop::Dropped);
        self.join_thread();
    }

    fn stop_by(&self, stop: Stop) {
        self.shared.state.lock().stop = Some(stop);
        self.shared.changed.notify_one();
    }

    fn join_thread(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // The result does not matter: the thread catches panics and logs errors.
            let _ = thread.join();
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.end();
    }
}
