//! Renewal: one thread keeps the leases of all locks that a client holds, and tells the holder of a
//! lock that is gone.

mod cleanup;
mod registry;
#[cfg(test)]
mod tests;
mod thread;

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

pub(crate) use registry::{Id, Schedule, slack};

use crate::base::backoff::Backoff;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::owner::OwnerId;
use crate::base::process::Process;
use crate::error::LostReason;
use crate::observe::Observer;
use crate::request::BatchClient;
use crate::script::{Count, Renewal};
use registry::Registry;

/// Between the attempts to release a hold in the background.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Something whose lease the watchdog keeps. It is called on the watchdog's thread, which holds no
/// mutex then; a panic in one call does not affect the other targets.
pub(crate) trait Renew: Send + Sync + fmt::Debug {
    /// When the watchdog is to look at it. This alone is called under the watchdog's mutex: it
    /// computes from the target's state, and calls neither the watchdog nor code of the
    /// application.
    fn schedule(&self) -> Schedule;
    /// The count that is to be written at `now`, because nobody knows what Redis has.
    fn settle(&self, now: Moment) -> Option<Count>;
    /// It was written, under this owner.
    fn settled(&self, owner: &OwnerId);
    /// What is to be done at `now`.
    fn step(&self, now: Moment) -> Step;
    /// Redis confirmed this renewal, which was sent after `asked`.
    fn renewed(&self, asked: Moment, done: &Renewal);
    /// A renewal got no clear answer, which says nothing about the lock.
    fn not_renewed(&self, cause: &str);
    /// Redis answered to this renewal that the lock is gone. False if the answer settles nothing
    /// and the target is to be renewed again.
    fn lost(&self, reason: LostReason, asked: &Renewal) -> bool;
}

#[derive(Debug)]
pub(crate) enum Step {
    Renew(Renewal),
    /// Nothing now.
    Wait,
    /// Nothing more, ever.
    Over,
}

/// The face of the renewal thread.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    process: Process,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<WatchdogState>,
    changed: Condvar,
}

/// Its mutex protects two invariants. What is registered is looked at no later than when it is due:
/// the thread decides how long to sleep, and an insertion decides whether to end that sleep, under
/// it. And a stored schedule is never older than the state of its target: each thread that changes
/// the state calls `reschedule` afterwards, which asks the target under it. So it is locked before
/// a target's mutex.
#[derive(Debug)]
struct WatchdogState {
    registry: Registry<Arc<dyn Renew>>,
    orphans: Vec<Orphan>,
    /// The thread looks again at this time by itself.
    asleep_until: Moment,
    stop: bool,
}

impl Default for WatchdogState {
    fn default() -> Self {
        Self {
            registry: Registry::default(),
            orphans: Vec::new(),
            asleep_until: Moment::NEVER,
            stop: false,
        }
    }
}

/// A hold that may stand in Redis although nobody here holds it, to be released in the background.
#[derive(Clone, Debug)]
struct Orphan {
    key: LockKey,
    owner: OwnerId,
    due: Moment,
    pauses: Backoff,
    /// From then on the lease has ended it.
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
            thread: Some(thread),
            process: Process::current(),
        })
    }

    /// Watches `target` from now on.
    pub(crate) fn watch(&self, id: Id, target: Arc<dyn Renew>) {
        let mut state = self.shared.state.lock();
        let schedule = target.schedule();
        state.registry.insert(id, target, schedule);
        self.shared.wake_by(state, schedule.due);
    }

    /// To be called after each change of the target's schedule. Does nothing if it is not watched.
    pub(crate) fn reschedule(&self, id: Id) {
        self.shared.reschedule(id, |target| target.schedule());
    }

    /// Forgets the target, without waiting for a renewal under way: that can touch only this
    /// owner's own field, and its result is ignored.
    pub(crate) fn forget(&self, id: Id) {
        let forgotten = self.shared.state.lock().registry.remove(id);
        drop(forgotten);
    }

    /// Releases, in the background and until Redis answers or the lease is over, what this owner
    /// may hold unknowingly. The owner must never be used again.
    pub(crate) fn release_orphan(&self, key: LockKey, owner: OwnerId, lease: Duration) {
        let now = Moment::now();
        let mut state = self.shared.state.lock();
        state.orphans.push(Orphan {
            key,
            owner,
            due: now,
            pauses: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            until: now.after(lease),
        });
        self.shared.wake_by(state, now);
    }
}

impl Shared {
    /// Stores the schedule that `ask` gets from the target.
    fn reschedule(&self, id: Id, ask: impl FnOnce(&dyn Renew) -> Schedule) {
        let mut state = self.state.lock();
        let due = state.registry.reschedule(id, |target| ask(&**target));
        if let Some(due) = due {
            self.wake_by(state, due);
        }
    }

    /// Has the thread look no later than `due`.
    fn wake_by(&self, state: parking_lot::MutexGuard<'_, WatchdogState>, due: Moment) {
        let wake = due < state.asleep_until;
        drop(state);
        if wake {
            self.changed.notify_one();
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // There is no such thread here.
            std::mem::forget(self.thread.take());
            return;
        }
        self.shared.state.lock().stop = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}
