//! The time that a test skips for the clients of an in-memory server.
//!
//! All moments are those of the real clock, because sockets and pauses need it. A test that skips
//! ten seconds makes each moment of a lease or of a call's budget ten seconds earlier.
//!
//! A lease counts from before its request, and is known to the watchdog after the reply. A skip
//! between these two moments would not reach it. So a test skips time only while no thread is
//! [`Active`]: all calls have ended or sleep, and the watchdogs wait.
//!
//! A skip moves the clock of the server first, so no lease is longer for its holder than on the
//! server. Then the targets of the watchdogs and the budgets of calls subtract it, once each. Last,
//! the test waits until the watchdogs have nothing to do and the threads sleep again.

mod active;

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

pub use active::{Active, Asleep};

/// The longest wait of a test until the threads of its clients have noticed a change.
const LONGEST_SETTLING: Duration = Duration::from_secs(10);

/// The longest wait of a test until threads wait in calls.
const LONGEST_START: Duration = Duration::from_secs(5);

/// The longest step while threads wait. A place in the queue of a fair lock needs a request
/// every two seconds.
const STEP_OF_WAITING: Duration = Duration::from_secs(2);

/// How long a step lasts at least, and how long a test sleeps while threads are busy.
const SHORTEST_STEP: Duration = Duration::from_millis(1);
const BUSY: Duration = Duration::from_micros(200);

/// The watchdog of a client, as a test drives it.
pub trait TestedWatchdog: Send + Sync + fmt::Debug {
    /// Makes the moments of all leases earlier by this time, and does what is due.
    fn skip(&self, time: Duration);
    /// The time that can be skipped at once: the next lease is due then.
    fn next_due(&self) -> Duration;
    /// True if nothing is due or under way.
    fn is_settled(&self) -> bool;
    /// The locks with this name that the client holds.
    fn held(&self, lock: &str) -> Vec<HeldLock>;
    /// Makes a confirmation due that Redis still has the locks with this name.
    fn confirm(&self, lock: &str);
}

/// A lock that a client holds.
#[derive(Debug)]
pub struct HeldLock {
    /// The key that has its owners.
    pub key: String,
    /// The fields and values of the key after another client has taken the lock over. `None`: this
    /// kind of lock can only be deleted.
    pub taken_over: Option<Vec<(String, String)>>,
}

/// What wakes a thread that sleeps in a call.
pub trait Sleeper: Send + Sync {
    /// Ends the current or the next sleep of the thread.
    fn wake(&self);
    /// True if the thread has been woken, and has not gone on.
    fn is_woken(&self) -> bool;
}

/// What has moments of the clock of its client.
pub trait Skip {
    /// Makes all moments earlier by this time, which a test skips.
    fn skip(&self, time: Duration);
}

/// The clock of one client. The default is the real clock.
#[derive(Clone, Debug, Default)]
pub struct ClientClock(Option<Arc<TestClock>>);

impl ClientClock {
    pub(crate) fn of(clock: &Arc<TestClock>) -> Self {
        Self(Some(Arc::clone(clock)))
    }

    /// From now on, the test that has this clock drives this watchdog.
    pub fn add_watchdog(&self, watchdog: &Arc<impl TestedWatchdog + 'static>) {
        let watchdog = Arc::downgrade(watchdog);
        if let Self(Some(clock)) = self {
            clock.add_watchdog(watchdog);
        }
    }

    /// The time that was skipped since this moment, which is a time since the start of the clock of
    /// the clients.
    #[must_use]
    #[inline]
    pub fn skipped_since(&self, moment: Duration) -> Duration {
        match self {
            Self(Some(clock)) => clock.skipped_since(moment),
            Self(None) => Duration::ZERO,
        }
    }
}

/// The time that a test skips for all clients of one server.
pub(crate) struct TestClock {
    state: Mutex<State>,
    /// The gate has opened or closed.
    changed: Condvar,
    /// The time since the start of the clock of the clients.
    now: fn() -> Duration,
    /// The server, which ends when the last client is dropped.
    _server: Arc<dyn Any + Send + Sync>,
}

/// Its mutex protects: while the gate is closed, no thread is running.
#[derive(Default)]
struct State {
    /// When time was skipped, and how much. Grows by one for each step of a test.
    skips: Vec<(Duration, Duration)>,
    gate: Gate,
    /// How often threads are active that do not sleep.
    running: usize,
    /// The threads that wait for the open gate.
    at_gate: usize,
    /// The threads that sleep in calls, each as often as it is active.
    parked: Vec<Arc<dyn Sleeper>>,
    watchdogs: Vec<Weak<dyn TestedWatchdog>>,
}

/// | gate | new calls | calls that wake up, and watchdogs | time is skipped |
/// |---|---|---|---|
/// | `Open` | run | run | no |
/// | `Closing` | wait | run | no |
/// | `Closed` | wait | wait | yes |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Gate {
    #[default]
    Open,
    /// A test waits until all calls have ended or sleep.
    Closing,
    Closed,
}

impl State {
    fn is_quiet(&self) -> bool {
        self.running == 0 && self.parked.iter().all(|one| !one.is_woken())
    }

    /// How many threads sleep in calls.
    fn sleeping(&self) -> usize {
        let asleep = self.parked.iter().filter(|one| !one.is_woken());
        let threads: BTreeSet<usize> = asleep.map(|one| Arc::as_ptr(one).addr()).collect();
        threads.len()
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClock").finish_non_exhaustive()
    }
}

impl TestClock {
    /// The clock of the clients of this server.
    pub(crate) fn new(server: Arc<dyn Any + Send + Sync>, now: fn() -> Duration) -> Self {
        Self {
            now,
            state: Mutex::default(),
            changed: Condvar::default(),
            _server: server,
        }
    }

    fn add_watchdog(&self, watchdog: Weak<dyn TestedWatchdog>) {
        let mut state = self.state.lock();
        state.watchdogs.retain(|one| one.strong_count() > 0);
        state.watchdogs.push(watchdog);
    }

    /// Runs code of a client until [`leave`](Self::leave).
    fn enter(&self, is_new: bool) {
        let mut state = self.state.lock();
        if is_new {
            self.pass_gate(&mut state);
        }
        self.run(state);
    }

    /// Waits until the gate is open. A test waits for this thread before it closes the gate again.
    fn pass_gate(&self, state: &mut MutexGuard<'_, State>) {
        state.at_gate += 1;
        // A test opens it after LONGEST_SETTLING at the latest.
        while state.gate != Gate::Open {
            self.changed.wait(state);
        }
        state.at_gate -= 1;
    }

    fn run(&self, mut state: MutexGuard<'_, State>) {
        // A test only skips time meanwhile.
        while state.gate == Gate::Closed {
            self.changed.wait(&mut state);
        }
        state.running += 1;
    }

    fn leave(&self) {
        self.state.lock().running -= 1;
    }

    fn park(&self, sleeper: &Arc<dyn Sleeper>) {
        let mut state = self.state.lock();
        state.running -= 1;
        state.parked.push(Arc::clone(sleeper));
    }

    fn end_parking(&self, sleeper: &Arc<dyn Sleeper>) {
        self.run(self.state.lock());
        let parked = &mut self.state.lock().parked;
        let at = parked.iter().position(|one| Arc::ptr_eq(one, sleeper));
        at.map(|at| parked.swap_remove(at));
    }

    fn skipped_since(&self, moment: Duration) -> Duration {
        let state = self.state.lock();
        let skips = state.skips.iter().rev();
        let later = skips.take_while(|&&(at, _)| at >= moment);
        later.map(|&(_, time)| time).sum()
    }

    /// Waits until the watchdogs have nothing to do, and all calls have ended or sleep, and keeps
    /// them there until the result is dropped. Panics if that takes too long: a test that goes on
    /// would not know what has happened.
    pub(crate) fn stop(&self) -> Stopped<'_> {
        self.close_gate();
        // Opens it also after a panic.
        let stopped = Stopped(self);
        let began = Instant::now();
        loop {
            if self.watchdogs().iter().all(|one| one.is_settled()) {
                let mut state = self.state.lock();
                if state.is_quiet() {
                    state.gate = Gate::Closed;
                    break;
                }
            }
            assert!(
                began.elapsed() < LONGEST_SETTLING,
                "a thread of a client of the in-memory server is busy for {LONGEST_SETTLING:?}",
            );
            pause();
        }
        stopped
    }

    /// Begins to close the gate, after the calls and the tests that have waited for it.
    fn close_gate(&self) {
        loop {
            let mut state = self.state.lock();
            self.pass_gate(&mut state);
            if state.at_gate == 0 {
                state.gate = Gate::Closing;
                return;
            }
            drop(state);
            pause();
        }
    }

    /// Waits until all threads of the clients have noticed what has happened.
    pub(crate) fn settle(&self) {
        drop(self.stop());
    }

    /// Waits until this many threads sleep in calls; false if that takes too long.
    pub(crate) fn await_sleeping(&self, threads: usize) -> bool {
        let began = Instant::now();
        while self.state.lock().sleeping() < threads {
            if began.elapsed() > LONGEST_START {
                return false;
            }
            pause();
        }
        true
    }

    fn watchdogs(&self) -> Vec<Arc<dyn TestedWatchdog>> {
        let state = self.state.lock();
        state.watchdogs.iter().filter_map(Weak::upgrade).collect()
    }
}

/// No thread of the clients runs until this is dropped.
pub(crate) struct Stopped<'a>(&'a TestClock);

impl Stopped<'_> {
    /// How much of `left` is skipped next, so that no renewal is missed.
    pub(crate) fn next_step(&self, left: Duration) -> Duration {
        let due = self.0.watchdogs().iter().map(|one| one.next_due()).min();
        let mut step = due.unwrap_or(Duration::MAX);
        if !self.0.state.lock().parked.is_empty() {
            step = step.min(STEP_OF_WAITING);
        }
        step.max(SHORTEST_STEP).min(left)
    }

    /// Skips time. The watchdogs and the waiting threads look at the time again as soon as this
    /// value is dropped.
    pub(crate) fn skip(&self, time: Duration) {
        let parked = {
            let mut state = self.0.state.lock();
            state.skips.push(((self.0.now)(), time));
            state.parked.clone()
        };
        for watchdog in self.0.watchdogs() {
            watchdog.skip(time);
        }
        parked.iter().for_each(|one| one.wake());
    }

    /// The locks with this name that clients hold.
    pub(crate) fn held(&self, lock: &str) -> Vec<HeldLock> {
        let watchdogs = self.0.watchdogs();
        let held = watchdogs.iter().flat_map(|watchdog| watchdog.held(lock));
        held.collect()
    }

    /// Makes the clients find out whether they still hold these locks.
    pub(crate) fn confirm(&self, lock: &str) {
        for watchdog in self.0.watchdogs() {
            watchdog.confirm(lock);
        }
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.state.lock().gate = Gate::Open;
        self.0.changed.notify_all();
    }
}

/// Lets other threads run.
fn pause() {
    thread::sleep(BUSY);
}
