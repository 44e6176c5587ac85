//! Renewal: one thread renews the leases of all locks that a client holds, and notifies a holder
//! whose lock is lost. It also releases grants that are idle for too long, and what this client may
//! hold in Redis without a grant.

mod calls;
mod cleanup;
mod confirm;
mod lines;
mod registry;
mod target;
#[cfg(feature = "testing")]
mod testing;
#[cfg(test)]
mod tests;
mod thread;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

pub(crate) use calls::ActiveCall;
pub(crate) use lines::{LineWait, LineWaiter};
pub(crate) use registry::{Schedule, TargetId, next_target_id, slack};
pub(crate) use target::{AtShutdown, LossReport, Renew, Renewal, Step};

use crate::base::{ClientClock, LockKey, Moment, Process, wait_for_state};
use crate::observe::Observer;
use crate::request::RedisClient;
use crate::script::{self, Call};
use crate::subscriber::Subscriber;
use calls::ActiveCalls;
use cleanup::{Orphan, Orphans};
use lines::Lines;
use registry::Registry;

/// The pause after a panic, which may occur again at once.
const AFTER_PANIC: Duration = Duration::from_millis(100);

/// For how long a request that leaves a line is repeated if it has no reply.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// While there are this many orphans, a call that no thread answers adds no request that leaves the
/// line, because every client that may publish can send calls. The place then ends half a second
/// after its call.
const MOST_ORPHANS_TO_LEAVE: usize = 1_000;

/// The handle of the renewal thread. Dropping it stops the thread.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    process: Process,
    clock: ClientClock,
}

#[derive(Debug, Default)]
struct Shared {
    /// The time between two confirmations of a hold. `Duration::MAX`: it is only renewed.
    confirm_every: Duration,
    state: Mutex<WatchdogState>,
    /// Signalled for the watchdog's thread, which may have new work, and for the threads in
    /// [`join`](Watchdog::join), when it has ended.
    changed: Condvar,
    calls: ActiveCalls,
    lines: Mutex<Lines>,
}

/// Its mutex protects four invariants:
///
/// * The thread handles each target when it is due. The thread decides under the mutex how long to
///   sleep, and an insertion decides under the mutex whether to end that sleep.
/// * A stored schedule is never older than the state of its target. Each thread that changes a
///   target calls `reschedule` afterwards, which reads the target's schedule under the mutex. So
///   this mutex is locked before a target's mutex, never after it.
/// * A shutdown ends every target: those that are registered when it begins, and no further one is
///   registered.
/// * After a shutdown the thread ends only when nothing is left to release, and nothing can be
///   added: there is no orphan and no [active call](ActiveCalls).
#[derive(Debug, Default)]
struct WatchdogState {
    registry: Registry<Arc<dyn Renew>>,
    orphans: Orphans,
    /// The locks of further orphans, which the thread releases in its present pass.
    orphans_in_pass: Vec<LockKey>,
    /// New targets, and those whose holds or hold counts have changed. The thread reads their
    /// schedules when it wakes up.
    noted: Vec<TargetId>,
    /// When the thread may send confirmations again.
    confirm_from: Moment,
    /// When the thread wakes up by itself; zero while it does not sleep.
    asleep_until: Moment,
    phase: Phase,
}

/// | phase | begun by | new targets | new orphans | the thread |
/// |---|---|---|---|---|
/// | `Open` | the start | accepted | released | renews, and releases orphans |
/// | `Closing` | a shutdown | refused | released | releases orphans |
/// | `Dropped` | the drop of the handle | none | none | releases idle grants and orphans |
/// | `Ended` | the thread, after `Closing` | refused | discarded | has ended |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    Closing,
    Dropped,
    Ended,
}

impl Watchdog {
    pub(crate) fn new(clock: &ClientClock, confirm_every: Duration) -> Self {
        let shared = Arc::new(Shared {
            confirm_every,
            ..Shared::default()
        });
        clock.add_watchdog(&shared);
        Self {
            shared,
            thread: Mutex::default(),
            process: Process::current(),
            clock: clock.clone(),
        }
    }

    /// Starts the thread.
    pub(crate) fn start(
        &self,
        redis: Arc<RedisClient>,
        subscriber: Arc<Subscriber>,
        observer: Arc<Observer>,
        command_timeout: Duration,
    ) -> std::io::Result<()> {
        let queue = Arc::clone(&observer.queue);
        let body = thread::WatchdogThread {
            shared: Arc::clone(&self.shared),
            redis,
            subscriber,
            observer,
            command_timeout,
        };
        let thread = queue.spawn("leasehold-watchdog", move || body.run())?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Adds a target, which is not due before this moment. The thread reads its schedule by then:
    /// most grants are released before that, and cost no more than their entry. False after a
    /// shutdown: then nothing renews the target or releases it.
    #[must_use]
    pub(crate) fn watch(&self, id: TargetId, target: Arc<dyn Renew>, earliest: Moment) -> bool {
        let mut state = self.shared.state.lock();
        if state.phase != Phase::Open {
            return false;
        }
        state.registry.insert(id, target);
        state.noted.push(id);
        self.shared.wake_by(state, earliest);
        true
    }

    /// Reads the target's schedule again. Must be called after each change of it. Does nothing if
    /// the target is not registered.
    pub(crate) fn reschedule(&self, id: TargetId) {
        self.shared.reschedule(id);
    }

    /// Reads the target's schedule again when the thread wakes up, within a second.
    pub(crate) fn note(&self, id: TargetId) {
        self.shared.state.lock().noted.push(id);
    }

    /// Removes a target. Does not wait for a renewal that is on its way: it can only touch this
    /// owner's own field, and its result is ignored.
    pub(crate) fn forget(&self, id: TargetId) {
        self.shared.forget(id);
    }

    /// Releases in the background what this client may hold, by `call`. Retries until Redis replies
    /// or `until`, when the lease is over. The owner of the call must never be used again.
    ///
    /// After a shutdown this is certain only within an [active call](Self::delay_shutdown): the
    /// thread may have ended.
    pub(crate) fn release_orphan(&self, key: LockKey, call: Call, until: Moment) -> bool {
        self.shared.release_orphan(Orphan::new(key, call, until))
    }

    /// As [`release_orphan`](Self::release_orphan), for a grant that has ended.
    pub(crate) fn release_grant(&self, grant: Arc<dyn Renew>, call: Call) -> bool {
        self.shared.release_orphan(Orphan::of(grant, call))
    }

    /// Makes the thread leave the line of the lock with this key, in which the client has this
    /// place, if the client was called and has not answered.
    pub(crate) fn line_leaver(&self) -> impl Fn(&str, &str) + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move |key, place| {
            if shared.state.lock().orphans.len() < MOST_ORPHANS_TO_LEAVE {
                let key = LockKey::new("", key);
                let call = script::leave_line(&key, place, true);
                let until = Moment::now().after(LEAVE_WITHIN);
                shared.release_orphan(Orphan::new(key, call, until));
            }
        }
    }
}

impl Shared {
    fn forget(&self, id: TargetId) {
        let mut state = self.state.lock();
        // Most grants are forgotten before their schedule is read.
        state.noted.pop_if(|last| *last == id);
        let forgotten = state.registry.remove(id);
        // First the mutex: the target may be the last reference to a grant and its span.
        drop(state);
        drop(forgotten);
    }

    /// False if the watchdog has ended.
    fn release_orphan(&self, orphan: Orphan) -> bool {
        let mut state = self.state.lock();
        if state.phase == Phase::Ended {
            return false;
        }
        state.orphans.push(orphan);
        self.wake_by(state, Moment::ZERO);
        true
    }

    /// Reads the schedule of a target again.
    fn reschedule(&self, id: TargetId) {
        self.reschedule_as(id, |schedule| schedule);
    }

    /// Reads the schedule of a target. After a panic, the target is due a while later.
    fn schedule_of(target: &Arc<dyn Renew>) -> Schedule {
        guarded(|| target.schedule()).unwrap_or_else(|| Schedule {
            due: Moment::now().after(AFTER_PANIC),
            unconfirmed: Moment::NEVER,
            ends: Moment::NEVER,
            lease: None,
            retry: AFTER_PANIC,
        })
    }

    /// Reads the schedule of a target, and stores it with this change.
    fn reschedule_as(&self, id: TargetId, change: impl FnOnce(Schedule) -> Schedule) {
        let mut state = self.state.lock();
        let schedule = state
            .registry
            .reschedule(id, |target| change(Self::schedule_of(target)));
        if let Some(schedule) = schedule {
            let confirm = self.confirms_at(&state, schedule.unconfirmed);
            self.wake_by(state, schedule.due.min(confirm));
        }
    }

    /// Reads the schedules of the noted targets.
    fn read_noted(state: &mut WatchdogState) {
        for id in std::mem::take(&mut state.noted) {
            state.registry.reschedule(id, Self::schedule_of);
        }
    }

    /// When the thread next has something to do for a target; `None` without a target.
    fn first_due(&self, state: &WatchdogState) -> Option<Moment> {
        let due = state.registry.next_due()?;
        Some(due.min(self.next_confirmation(state)))
    }

    /// When the thread next sends confirmations.
    fn next_confirmation(&self, state: &WatchdogState) -> Moment {
        self.confirms_at(state, state.registry.unconfirmed_since())
    }

    /// When the thread sends the confirmation of what is unconfirmed since this moment.
    fn confirms_at(&self, state: &WatchdogState, since: Moment) -> Moment {
        since.after(self.confirm_every).max(state.confirm_from)
    }

    /// Wakes the thread if it would sleep beyond `due`.
    fn wake_by(&self, state: MutexGuard<'_, WatchdogState>, due: Moment) {
        let wake = due < state.asleep_until;
        drop(state);
        if wake {
            self.changed.notify_all();
        }
    }
}

/// Returns `None` after a panic.
fn guarded<T>(code: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(code)).ok()
}

impl Watchdog {
    /// Ends all targets, also those that threads use, and releases them in the background. From
    /// now on no target can be added. The thread ends when all calls have ended, and all orphans
    /// are released or their leases are over.
    ///
    /// The holders are notified, and last the losses are reported, which calls code of the
    /// application. Only if a majority of servers is lost by that, its other members are reported
    /// before.
    pub(crate) fn release_all(&self) {
        // Another shutdown at the same time waits until these orphans are queued.
        let call = self.delay_shutdown();
        self.shared.calls.announce_end();
        let targets = {
            let mut state = self.shared.state.lock();
            if state.phase == Phase::Open {
                state.phase = Phase::Closing;
            }
            state.registry.take_all()
        };
        let mut orphans = Vec::with_capacity(targets.len());
        let mut notices = Vec::with_capacity(targets.len());
        for target in targets {
            if let Some(ended) = Arc::clone(&target).shut_down() {
                // After its end no reply prolongs its lease.
                orphans.push(Orphan::of(target, ended.release));
                notices.push(ended.notify);
            }
        }
        self.shared.state.lock().orphans.extend(orphans);
        self.shared.changed.notify_all();
        // The orphans are queued, so the thread does not end before it has released them.
        drop(call);
        // All holders are notified before the first report, which may block.
        let reports: Vec<LossReport> = notices.into_iter().map(|notify| notify()).collect();
        reports.into_iter().for_each(|report| report());
    }

    /// Waits until the thread has ended, at most until this moment. True if it has.
    pub(crate) fn join(&self, until: Moment) -> bool {
        let Shared { state, changed, .. } = &*self.shared;
        let is_over = |state: &WatchdogState| state.phase == Phase::Ended;
        let has_ended = wait_for_state(changed, &mut state.lock(), until, is_over);
        if has_ended {
            self.join_thread();
        }
        has_ended
    }

    /// The number of orphans that are not released.
    pub(crate) fn unreleased(&self) -> usize {
        let state = self.shared.state.lock();
        state.orphans.len() + state.orphans_in_pass.len()
    }

    /// Ends the thread. After the pass that it may be in, it releases the idle grants and the
    /// orphans, if Redis replies. Each of the two takes at most a command timeout.
    pub(crate) fn end(&mut self) {
        if !self.process.is_current() {
            // A forked child has the handle of this thread, but not the thread.
            std::mem::forget(self.thread.get_mut().take());
            return;
        }
        {
            let mut state = self.shared.state.lock();
            if state.phase != Phase::Ended {
                state.phase = Phase::Dropped;
            }
        }
        self.shared.changed.notify_all();
        self.join_thread();
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
