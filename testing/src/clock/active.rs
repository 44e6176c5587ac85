//! The threads between whose moments no test skips time.

use std::cell::RefCell;
use std::sync::Arc;

use super::{ClientClock, Sleeper, TestClock};

thread_local! {
    /// The clocks at which this thread is active, each as often as it is.
    static ACTIVE: RefCell<Vec<Arc<TestClock>>> = const { RefCell::new(Vec::new()) };
}

/// Lets no test skip time at this clock until it is dropped, except while the thread
/// [sleeps](Asleep).
#[derive(Debug, Default)]
pub struct Active(Option<Arc<TestClock>>);

impl Active {
    /// Enters a call of a client with this clock. The first call of a thread waits for a test that
    /// waits for calls to end, so that this test need not wait indefinitely. That test waits for
    /// nested calls, and for a call of several clients.
    #[must_use]
    #[inline]
    pub fn by_call(ClientClock(clock): &ClientClock) -> Self {
        Self(clock.as_ref().map(|clock| {
            let is_first = ACTIVE.try_with(|active| active.borrow().is_empty());
            enter(clock, is_first.unwrap_or(false))
        }))
    }

    /// For a thread of a client with this clock.
    #[must_use]
    #[inline]
    pub fn by_own_thread(ClientClock(clock): &ClientClock) -> Self {
        Self(clock.as_ref().map(|clock| enter(clock, false)))
    }
}

impl Drop for Active {
    #[inline]
    fn drop(&mut self) {
        if let Some(clock) = self.0.take() {
            leave(&clock);
        }
    }
}

fn enter(clock: &Arc<TestClock>, is_new: bool) -> Arc<TestClock> {
    clock.enter(is_new);
    // Without the variable, which the end of the thread destroys, it only does not sleep.
    let _ = ACTIVE.try_with(|active| active.borrow_mut().push(Arc::clone(clock)));
    Arc::clone(clock)
}

fn leave(clock: &Arc<TestClock>) {
    let _ = ACTIVE.try_with(|active| {
        let mut active = active.borrow_mut();
        let at = active.iter().rposition(|one| Arc::ptr_eq(one, clock));
        at.map(|at| active.remove(at))
    });
    clock.leave();
}

/// The sleep of a thread in a call: a test can skip time meanwhile, and wakes the thread then.
#[expect(missing_debug_implementations, reason = "it is only dropped")]
pub struct Asleep {
    /// Each as often as the thread is active there.
    clocks: Vec<Arc<TestClock>>,
    sleeper: Arc<dyn Sleeper>,
}

impl Asleep {
    /// Drop it before the wake-up is taken: until then the thread counts as busy.
    #[must_use]
    pub fn begin(sleeper: &Arc<impl Sleeper + 'static>) -> Self {
        let sleeper: Arc<dyn Sleeper> = Arc::clone(sleeper) as _;
        let clocks = ACTIVE.try_with(|active| active.borrow().clone());
        let clocks = clocks.unwrap_or_default();
        for clock in &clocks {
            clock.park(&sleeper);
        }
        Self { clocks, sleeper }
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        for clock in &self.clocks {
            clock.end_parking(&self.sleeper);
        }
    }
}
