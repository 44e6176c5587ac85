//! Ends the waits of other threads.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::base::{PerProcess, Unparker};

/// Ends waits for locks or permits, for latches, or on conditions, from another thread.
///
/// When an interrupt is raised, the calls that wait with a clone of it return
/// [`Error::Interrupted`](crate::Error::Interrupted). These methods take an interrupt:
/// [`lock_interruptibly`](crate::Lock::lock_interruptibly),
/// [`try_lock_interruptibly`](crate::Lock::try_lock_interruptibly),
/// [`acquire_interruptibly`](crate::Lock::acquire_interruptibly),
/// [`try_acquire_interruptibly`](crate::Lock::try_acquire_interruptibly). So do the
/// last two of [`Semaphore`](crate::Semaphore) and [`LeasedSemaphore`](crate::LeasedSemaphore), and
/// `wait_interruptibly` and `wait_for_interruptibly` of [`CountDownLatch`](crate::CountDownLatch)
/// and [`Condition`](crate::Condition).
///
/// An interrupt stays raised, so that none is missed between two calls. Create a new one for the
/// next task. It does what Java's `Thread.interrupt` does, without a hidden flag on the thread.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::{Error, Interrupt, Lease, LockClient};
///
/// let client = LockClient::connect(url)?;
/// let lock = client.reentrant_lock("order:pay");
/// let guard = lock.acquire()?;
///
/// let interrupt = Interrupt::new();
/// let waiter = {
///     let (lock, interrupt) = (lock.clone(), interrupt.clone());
///     std::thread::spawn(move || {
///         lock.lock_interruptibly(Lease::RENEWED, &interrupt)?;
///         lock.unlock()
///     })
/// };
/// interrupt.interrupt();
/// assert!(matches!(waiter.join().unwrap(), Err(Error::Interrupted { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Waits>);

#[derive(Default)]
struct Waits {
    /// Set under the mutex. Read without it, because every call reads that of its client.
    /// Sequentially consistent: see `ActiveCalls` of the watchdog.
    raised: AtomicBool,
    unparkers: PerProcess<Unparkers>,
}

/// Their mutex protects: raising the interrupt wakes every unparker that was registered before.
/// Threads that park write here, so it shares no cache line with `raised`.
#[derive(Default)]
#[repr(align(128))]
struct Unparkers(Mutex<Registrations>);

/// The unparkers of one process, by the numbers of their registrations.
#[derive(Default)]
struct Registrations {
    last: u64,
    unparkers: HashMap<u64, Unparker>,
}

impl Interrupt {
    /// Creates an interrupt that is not raised.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the interrupt: ends all waits with a clone of it, and all later ones. Never blocks.
    ///
    /// It is raised in this process only, not in processes that were forked before.
    pub fn interrupt(&self) {
        let unparkers = {
            let mut registrations = self.0.unparkers.get().0.lock();
            self.0.raised.store(true, Ordering::SeqCst);
            std::mem::take(&mut registrations.unparkers)
        };
        for unparker in unparkers.into_values() {
            unparker.unpark();
        }
    }

    /// Returns true if the interrupt was raised.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.0.raised.load(Ordering::SeqCst)
    }

    /// Registers an unparker that raising the interrupt wakes, until the result is dropped.
    pub(crate) fn register(&self, unparker: Unparker) -> Registered {
        let mut registrations = self.0.unparkers.get().0.lock();
        registrations.last += 1;
        let number = registrations.last;
        if self.is_interrupted() {
            unparker.unpark();
        } else {
            registrations.unparkers.insert(number, unparker);
        }
        drop(registrations);
        Registered {
            interrupt: self.clone(),
            number,
        }
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt")
            .field("raised", &self.is_interrupted())
            .finish()
    }
}

/// Removes its unparker from the interrupt when it is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    interrupt: Interrupt,
    number: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let unparkers = self.interrupt.0.unparkers.get();
        unparkers.0.lock().unparkers.remove(&self.number);
    }
}
