//! What a test skips, and the threads that have to notice it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::parker::{self, Unparker};

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
pub(crate) trait TestedWatchdog: Send + Sync + fmt::Debug {
    /// Applies what was skipped to all leases, and does what is due.
    fn apply_skips(&self, clock: &TestClock);
    /// When the next lease is due.
    fn next_due(&self) -> Moment;
    /// True if nothing is due or under way.
    fn is_settled(&self) -> bool;
    /// The keys of the locks with this name that the client holds.
    fn keys_of(&self, lock: &str) -> Vec<LockKey>;
    /// Confirms at once that Redis still has the locks with this name.
    fn confirm(&self, lock: &str);
}

/// The time that a test skips for all clients of one server.
pub(crate) struct TestClock {
    state: Mutex<State>,
    /// The server, which ends when the last client is dropped.
    _server: Arc<dyn Any + Send + Sync>,
}

#[derive(Default)]
struct State {
    /// When time was skipped, and how much. Grows by one for each step of a test.
    skips: Vec<(Moment, Duration)>,
    /// The threads that wait in a call.
    calls: Vec<Unparker>,
    watchdogs: Vec<Weak<dyn TestedWatchdog>>,
    is_cut_off: bool,
}

impl State {
    fn skipped_since(&self, moment: Moment) -> Duration {
        let skips = self.skips.iter().rev();
        let later = skips.take_while(|&&(at, _)| at >= moment);
        later.map(|&(_, time)| time).sum()
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClock").finish_non_exhaustive()
    }
}

impl TestClock {
    /// The clock of the clients of this server.
    pub(crate) fn new(server: Arc<dyn Any + Send + Sync>) -> Self {
        Self {
            state: Mutex::default(),
            _server: server,
        }
    }

    pub(crate) fn add_watchdog(&self, watchdog: Weak<dyn TestedWatchdog>) {
        let mut state = self.state.lock();
        state.watchdogs.retain(|one| one.strong_count() > 0);
        state.watchdogs.push(watchdog);
    }

    pub(super) fn add_call(&self, unparker: &Unparker) {
        self.state.lock().calls.push(unparker.clone());
    }

    pub(super) fn remove_call(&self, unparker: &Unparker) {
        let calls = &mut self.state.lock().calls;
        calls.retain(|one| !one.same_as(unparker));
    }

    pub(crate) fn skipped_since(&self, moment: Moment) -> Duration {
        self.state.lock().skipped_since(moment)
    }

    /// What was skipped since `*since`, which then begins after that.
    pub(crate) fn take_skipped(&self, since: &mut Moment) -> Duration {
        let state = self.state.lock();
        let skipped = state.skipped_since(*since);
        if let Some(&(last, _)) = state.skips.last() {
            *since = (*since).max(last.after(Duration::from_nanos(1)));
        }
        skipped
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.state.lock().is_cut_off
    }

    /// Makes calls fail at once while the server is not available, which `change` begins or
    /// ends.
    pub(crate) fn set_cut_off(&self, is_cut_off: bool, change: impl FnOnce()) {
        if is_cut_off {
            self.state.lock().is_cut_off = true;
        }
        change();
        self.state.lock().is_cut_off = is_cut_off;
        // What has begun before the change may fail, and is then due only later.
        self.settle();
        self.wake_all();
    }

    /// Skips time, and returns when all threads of the clients have noticed that.
    pub(crate) fn skip(&self, time: Duration) {
        self.state.lock().skips.push((Moment::now(), time));
        self.wake_all();
    }

    /// Lets the watchdogs and the waiting threads look at the time again.
    fn wake_all(&self) {
        for watchdog in self.watchdogs() {
            watchdog.apply_skips(self);
        }
        let calls = self.state.lock().calls.clone();
        calls.iter().for_each(Unparker::unpark);
        self.settle();
    }

    /// How much of `left` is skipped next, so that no renewal is missed.
    pub(crate) fn next_step(&self, left: Duration) -> Duration {
        let due = self.watchdogs().iter().map(|one| one.next_due()).min();
        let mut step = due.unwrap_or(Moment::NEVER).left();
        if !self.state.lock().calls.is_empty() {
            step = step.min(STEP_OF_WAITING);
        }
        step.max(SHORTEST_STEP).min(left)
    }

    /// Waits until this many threads sleep in calls; false if that takes too long.
    pub(crate) fn await_sleeping(&self, threads: usize) -> bool {
        let deadline = Moment::now().after(LONGEST_START);
        loop {
            let calls = self.state.lock().calls.clone();
            if calls.iter().filter(|call| call.is_asleep()).count() >= threads {
                return true;
            }
            if deadline.is_past() {
                return false;
            }
            pause();
        }
    }

    /// Waits until the watchdogs have nothing to do, and all waiting threads sleep. Panics if that
    /// takes too long: a test that goes on would not know what has happened.
    pub(crate) fn settle(&self) {
        let deadline = Moment::now().after(LONGEST_SETTLING);
        while !self.is_settled() {
            assert!(
                !deadline.is_past(),
                "a thread of a client of the in-memory server is busy for {LONGEST_SETTLING:?}",
            );
            pause();
        }
    }

    fn is_settled(&self) -> bool {
        let calls = self.state.lock().calls.clone();
        calls.iter().all(Unparker::is_asleep)
            && self
                .watchdogs()
                .iter()
                .all(|watchdog| watchdog.is_settled())
    }

    /// The keys of the locks with this name that clients hold.
    pub(crate) fn keys_of(&self, lock: &str) -> Vec<LockKey> {
        let watchdogs = self.watchdogs();
        let keys = watchdogs.iter().flat_map(|watchdog| watchdog.keys_of(lock));
        keys.collect()
    }

    /// Makes the clients find out whether they still hold these locks.
    pub(crate) fn confirm(&self, lock: &str) {
        // The reply to a renewal that is under way would count as this confirmation.
        self.settle();
        for watchdog in self.watchdogs() {
            watchdog.confirm(lock);
        }
        self.settle();
    }

    fn watchdogs(&self) -> Vec<Arc<dyn TestedWatchdog>> {
        let state = self.state.lock();
        state.watchdogs.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Lets other threads run.
fn pause() {
    let (_unparker, parker) = parker::pair();
    parker.sleep(BUSY);
}
