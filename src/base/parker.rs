//! Lets one thread wake another. A wake-up before the sleep ends that sleep at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::test_clock::Asleep;

/// How often threads of this process have been woken.
pub(crate) static WAKE_UPS: AtomicU64 = AtomicU64::new(0);

/// Its mutex protects: a wake-up is seen by the sleep under way or by the next one.
#[derive(Debug, Default)]
struct WakeUp {
    is_pending: Mutex<bool>,
    changed: Condvar,
    /// A message of another client has arrived since this was read last.
    has_message: AtomicBool,
}

impl WakeUp {
    /// Ends the current or the next sleep.
    fn wake(&self) {
        WAKE_UPS.fetch_add(1, Ordering::Relaxed);
        *self.is_pending.lock() = true;
        self.changed.notify_one();
    }
}

#[cfg(feature = "testing")]
impl leasehold_testing::clock::Sleeper for WakeUp {
    fn wake(&self) {
        self.wake();
    }

    fn is_woken(&self) -> bool {
        *self.is_pending.lock()
    }
}

/// Ends the current or the next sleep of one [`Parker`].
#[derive(Clone, Debug)]
pub(crate) struct Unparker(Arc<WakeUp>);

impl Unparker {
    pub(crate) fn unpark(&self) {
        self.0.wake();
    }

    /// Wakes the thread because a message of another client has arrived.
    pub(crate) fn unpark_by_message(&self) {
        self.0.has_message.store(true, Ordering::Relaxed);
        self.unpark();
    }

    pub(crate) fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The end that sleeps.
#[derive(Debug)]
pub(crate) struct Parker(Arc<WakeUp>);

impl Parker {
    /// True if a message has arrived since the last call.
    pub(crate) fn take_message(&self) -> bool {
        self.0.has_message.swap(false, Ordering::Relaxed)
    }

    /// Sleeps for at most `timeout`. Returns true if an [`Unparker`] ended the sleep.
    pub(crate) fn sleep(&self, timeout: Duration) -> bool {
        self.wait(timeout);
        self.take_wake_up()
    }

    /// Sleeps for at most `timeout`, until a wake-up is pending.
    fn wait(&self, timeout: Duration) {
        let Self(wake_up) = self;
        let _parked = Asleep::begin(wake_up);
        let mut is_pending = wake_up.is_pending.lock();
        if !*is_pending {
            // A time that is too long for the clock of `Condvar` is cut: the caller sleeps again.
            let timeout = timeout.min(LONGEST);
            wake_up.changed.wait_for(&mut is_pending, timeout);
        }
    }

    /// True if a wake-up was pending, which is none any more.
    pub(crate) fn take_wake_up(&self) -> bool {
        std::mem::take(&mut *self.0.is_pending.lock())
    }
}

const LONGEST: Duration = Duration::from_secs(3600);

/// Creates a parker and its unparker.
pub(crate) fn pair() -> (Unparker, Parker) {
    let wake_up = Arc::new(WakeUp::default());
    (Unparker(Arc::clone(&wake_up)), Parker(wake_up))
}
