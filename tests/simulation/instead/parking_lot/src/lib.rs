//! What the library uses of `parking_lot`, on the threads of the simulation.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use leasehold_simulation_world::{queues, tasks, time};
use lock_api::RawMutex as _;

/// A mutex.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// The right to use what a mutex has.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// The right to use a part of it.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// A mutex that readers share.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// A mutex without a value.
#[derive(Debug)]
pub struct RawMutex(AtomicBool);

impl RawMutex {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

// SAFETY: `try_lock` succeeds once for each `unlock`: one thread of the system runs all threads of
// the simulation.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: Self = Self(AtomicBool::new(false));

    type GuardMarker = lock_api::GuardNoSend;

    fn lock(&self) {
        tasks::preempt();
        while !self.try_lock() {
            queues::wait(self.address(), None);
        }
    }

    fn try_lock(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Relaxed);
        queues::wake_one(self.address());
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = std::time::Instant;

    fn try_lock_for(&self, time: Duration) -> bool {
        tasks::preempt();
        let until = time::after(time);
        while !self.try_lock() {
            if time::now() >= until {
                return false;
            }
            queues::wait(self.address(), Some(until));
        }
        true
    }

    fn try_lock_until(&self, until: std::time::Instant) -> bool {
        self.try_lock_for(until.saturating_duration_since(std::time::Instant::now()))
    }
}

/// A mutex that readers share, without a value.
#[derive(Debug)]
pub struct RawRwLock(AtomicU32);

const WRITER: u32 = u32::MAX;

impl RawRwLock {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn wait_until(&self, is_locked: impl Fn() -> bool) {
        tasks::preempt();
        while !is_locked() {
            queues::wait(self.address(), None);
        }
    }
}

// SAFETY: a writer locks it only at zero, and a reader only without a writer.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: Self = Self(AtomicU32::new(0));

    type GuardMarker = lock_api::GuardNoSend;

    fn lock_shared(&self) {
        self.wait_until(|| self.try_lock_shared());
    }

    fn try_lock_shared(&self) -> bool {
        let readers = self.0.load(Ordering::Relaxed);
        let is_free = readers != WRITER;
        if is_free {
            self.0.store(readers + 1, Ordering::Relaxed);
        }
        is_free
    }

    unsafe fn unlock_shared(&self) {
        let readers = self.0.load(Ordering::Relaxed);
        self.0.store(readers - 1, Ordering::Relaxed);
        queues::wake_all(self.address());
    }

    fn lock_exclusive(&self) {
        self.wait_until(|| self.try_lock_exclusive());
    }

    fn try_lock_exclusive(&self) -> bool {
        let is_free = self.0.load(Ordering::Relaxed) == 0;
        if is_free {
            self.0.store(WRITER, Ordering::Relaxed);
        }
        is_free
    }

    unsafe fn unlock_exclusive(&self) {
        self.0.store(0, Ordering::Relaxed);
        queues::wake_all(self.address());
    }
}

/// A condition variable.
#[derive(Default)]
pub struct Condvar {
    /// So that it has an address of its own.
    place: AtomicBool,
}

/// Whether a wait ended because its time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if the time was over.
    #[must_use]
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition variable for which no thread waits.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            place: AtomicBool::new(false),
        }
    }

    /// Waits until it is notified.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_until_time(guard, None);
    }

    /// Waits until it is notified, at most for this time.
    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        time: Duration,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(!self.wait_until_time(guard, Some(time::after(time))))
    }

    fn wait_until_time<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        until: Option<u64>,
    ) -> bool {
        // SAFETY: the guard, which is borrowed, has the mutex locked, and it is locked again below.
        let mutex = unsafe { MutexGuard::mutex(guard).raw() };
        // SAFETY: as above. No thread runs before this one waits, so no notification is lost.
        unsafe { mutex.unlock() };
        let is_notified = queues::wait(self.address(), until);
        mutex.lock();
        is_notified
    }

    /// Ends the wait of one thread.
    pub fn notify_one(&self) {
        queues::wake_one(self.address());
    }

    /// Ends the waits of all threads.
    pub fn notify_all(&self) {
        queues::wake_all(self.address());
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(&self.place).addr()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}
