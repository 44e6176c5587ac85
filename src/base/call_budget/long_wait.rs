//! Counts a call that waits. Reports a wait that has become long, once, although the waiting thread
//! sleeps.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::CallBudget;

/// How long a wait lasts before it is reported.
const LONG: Duration = Duration::from_secs(10);

/// Gets the name of what the call waits for, the time, and the holder. It is called on the waiting
/// thread, without a locked mutex.
type WaitReport = fn(&str, Duration, Option<&str>);

/// Counts the calls that wait. It is called on their threads, without a locked mutex.
pub(crate) trait WaitObserver: std::fmt::Debug {
    /// A call waits for the first time.
    fn begins(&self);
    /// A call that has waited returns.
    fn ends(&self);
}

/// The wait of a call, and its report while it has not waited for long.
#[derive(Debug, Default)]
pub(super) struct LongWait<'c> {
    /// `None` if no wait of the call is reported.
    report: Option<(&'c str, WaitReport)>,
    is_reported: Cell<bool>,
    /// Set from the first wait on.
    is_counted: Cell<bool>,
    observer: Option<&'c dyn WaitObserver>,
    /// The owner id of another client that has what this call waits for, by the last reply.
    holder: RefCell<Option<String>>,
}

impl LongWait<'_> {
    /// Counts the call, if this is its first wait.
    pub(super) fn begin(&self) {
        if let Some(observer) = self.observer
            && !self.is_counted.replace(true)
        {
            observer.begins();
        }
    }
}

impl Drop for LongWait<'_> {
    fn drop(&mut self) {
        if let Some(observer) = self.observer
            && self.is_counted.get()
        {
            observer.ends();
        }
    }
}

impl<'c> CallBudget<'c> {
    /// This budget of a call that is counted while it waits.
    pub(crate) fn counted(mut self, observer: &'c dyn WaitObserver) -> Self {
        self.long_wait.observer = Some(observer);
        self
    }

    /// This budget of a call for `name`, whose wait is reported once it is long.
    pub(crate) fn reporting(mut self, name: &'c str, report: WaitReport) -> Self {
        self.long_wait.report = Some((name, report));
        self
    }

    /// Notes the owner id of another client that has what this call waits for.
    pub(crate) fn note_holder(&self, owner: String) {
        *self.long_wait.holder.borrow_mut() = (!owner.is_empty()).then_some(owner);
    }

    /// The time until the wait of this call is long. `None` if it is not reported any more.
    pub(super) fn long_wait_left(&self) -> Option<Duration> {
        let is_wanted = self.long_wait.report.is_some() && !self.long_wait.is_reported.get();
        is_wanted.then(|| {
            self.minus_skipped(self.started.after(LONG), self.started)
                .left()
        })
    }

    /// Parks the thread for `timeout`, and reports the wait after `left`, which is shorter. True if
    /// the thread was unparked.
    pub(super) fn wait_and_report(&self, left: Duration, timeout: Duration) -> bool {
        if self.park(left) {
            return true;
        }
        if let Some((name, report)) = self.long_wait.report
            && !self.is_interrupted()
        {
            self.long_wait.is_reported.set(true);
            report(name, LONG, self.long_wait.holder.borrow().as_deref());
        }
        self.park(timeout - left)
    }
}
