//! A condition of a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::debug::Short;
use crate::base::Interrupt;
use crate::engine::SingleLock;
use crate::error::Result;
use crate::protocol::Notified;

/// A condition of a [`ReentrantLock`](crate::ReentrantLock): threads of several processes wait
/// until another thread notifies them. Made by
/// [`ReentrantLock::condition`](crate::ReentrantLock::condition). This is Java's
/// `java.util.concurrent.locks.Condition`.
///
/// A thread holds the lock, finds that it cannot go on, and [waits](Self::wait): it releases the
/// lock, and has it again when the call returns. A thread that has changed the shared state
/// [notifies](Self::notify_one) while it holds the lock.
///
/// **Always wait in a loop** that checks the shared state. A wait may also end without a
/// notification (a spurious wake-up), and another thread may have changed the state before the
/// notified thread has the lock.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use leasehold::LockClient;
///
/// // The shared state. In a real program it is where all processes see it.
/// static JOBS: AtomicU32 = AtomicU32::new(0);
///
/// let client = LockClient::connect(url)?;
/// let lock = client.reentrant_lock("jobs");
/// let not_empty = lock.condition("not empty");
///
/// let consumer = {
///     let (lock, not_empty) = (lock.clone(), not_empty.clone());
///     std::thread::spawn(move || {
///         let guard = lock.acquire()?;
///         while JOBS.load(Ordering::SeqCst) == 0 {
///             not_empty.wait()?;
///         }
///         JOBS.fetch_sub(1, Ordering::SeqCst);
///         guard.unlock()
///     })
/// };
///
/// let guard = lock.acquire()?;
/// JOBS.fetch_add(1, Ordering::SeqCst);
/// not_empty.notify_one()?;
/// guard.unlock()?;
/// consumer.join().unwrap()
/// # }
/// ```
///
/// # The lock during a wait
///
/// A wait releases the lock whatever its level, also the levels with guards. Meanwhile
/// [`check`](crate::LockGuard::check) of these guards fails with
/// [`Error::NotHeld`](crate::Error::NotHeld), and [`lost`](crate::LockGuard::lost) gets no message.
/// After the wait the levels, their guards, their leases and the receivers of `lost` are as before.
/// A fixed lease begins again in full. An [extension](crate::LockGuard::extend) is not kept.
///
/// The thread acquires the lock again without a time limit, also after its time to wait is over, or
/// after an interrupt. If that fails, the levels are gone: their guards report `NotHeld`, and
/// `lost` gets no message; after a [shutdown](crate::LockClient::shutdown), the guards are lost.
///
/// # Notifications
///
/// * [`notify_one`](Self::notify_one) notifies the thread that has waited longest, of all
///   processes, and no other thread. But if the reply of Redis is lost, the request that repeats it
///   can notify the next thread, too.
/// * A notified thread keeps its notification until it has the lock. If its process dies before, or
///   if it cannot acquire the lock, the next waiting thread is notified.
/// * A process that dies while it waits loses its place within seconds: 10 s, or the client's
///   [watchdog lease](crate::LockClientBuilder::watchdog_lease) if that is shorter, but at least
///   1 s. A notification that it got is passed on within that time and a third of it.
/// * If Redis loses the keys of the condition, by a restart or `FLUSHALL`, all waiting threads wake
///   up within seconds. So does a process that was paused for longer than its place lasts.
/// * If Redis does not reply when a thread ends its wait, and executes that request after the wait,
///   a notification of the meantime can be lost.
/// * If a request that begins a wait gets no reply, and Redis executes it after
///   [`notify_all`](Self::notify_all) has notified its thread, while another thread of the same
///   client holds the lock, that thread can take a notification of `notify_one`, too. So one
///   waiting thread fewer is notified.
/// * A failover can lose a notification of the last moments, like it can lose a lock. Use
///   [`wait_for`](Self::wait_for) where a missed notification must not stop a program.
///
/// # Costs and format
///
/// A wait sends one request to begin it and one to end it, beside those of the lock. While it
/// waits, it costs the renewals of its place, every third of the time above; the watchdog renews
/// the places of all waiting threads of a client together. A notification sends one request.
///
/// Redisson has no conditions, so the keys are those of this crate: two sorted sets beside
/// the key of the lock, with a time to live. A Java process can share the lock, but can neither
/// wait on its conditions nor notify. A Java client that keeps the lock delays notified threads.
///
/// No method panics. In the repository, `cargo run --example bounded_buffer` shows conditions
/// between processes.
#[derive(Clone)]
pub struct Condition {
    lock: SingleLock,
    name: Arc<str>,
}

impl Condition {
    pub(super) fn new(lock: SingleLock, name: &str) -> Self {
        Self {
            lock,
            name: name.into(),
        }
    }

    /// Returns the name of the condition.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Releases the lock, waits for a notification without a time limit, and acquires the lock
    /// again.
    ///
    /// # Errors
    ///
    /// * [`Error::NotHeld`](crate::Error::NotHeld) if this thread does not hold the lock. No I/O.
    /// * [`Error::Lost`](crate::Error::Lost) if the lock was lost before the wait, or at its end.
    ///   If it is lost while its place is ended, a notification of this thread is lost with it.
    /// * [`Error::Unavailable`](crate::Error::Unavailable) after three
    ///   [command timeouts](crate::LockClientBuilder::command_timeout) if Redis did not reply to
    ///   the request that begins the wait: the lock is still held. After
    ///   [`give_up_after`](crate::LockClientBuilder::give_up_after) without any reply if the lock
    ///   could not be acquired again: it is not held any more.
    /// * [`Error::Redis`](crate::Error::Redis) if Redis refused the request.
    /// * [`Error::WrongType`](crate::Error::WrongType) if a key of the condition has another type.
    /// * [`Error::TooFewReplicas`](crate::Error::TooFewReplicas) if too few replicas confirm the
    ///   lock when it is acquired again.
    /// * [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a name that is not 1 to 512
    ///   bytes long, or if this thread holds the name as another kind of lock.
    /// * [`Error::Forked`](crate::Error::Forked) in a process that was forked from the client's.
    pub fn wait(&self) -> Result<()> {
        self.wait_for(Duration::MAX).map(drop)
    }

    /// Releases the lock, waits for a notification for at most `wait`, and acquires the lock again.
    /// Returns false if the time was over without a notification, and true otherwise, also after a
    /// spurious wake-up.
    ///
    /// The call returns later than after `wait` if another thread holds the lock then. If this
    /// thread has been notified by the time it has the lock, the result is true. [`Duration::MAX`]
    /// means: without a time limit.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use std::time::Duration;
    /// use leasehold::LockClient;
    ///
    /// let lock = LockClient::connect(url)?.reentrant_lock("jobs");
    /// let guard = lock.acquire()?;
    /// // No thread notifies.
    /// assert!(!lock.condition("not empty").wait_for(Duration::from_millis(50))?);
    /// guard.check()?;
    /// guard.unlock()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Self::wait).
    #[must_use = "false means that the time was over"]
    pub fn wait_for(&self, wait: Duration) -> Result<bool> {
        self.lock.wait_on(&self.name, wait, None)
    }

    /// Releases the lock, waits for a notification until `interrupt` is raised, and acquires the
    /// lock again, also after the interrupt.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use leasehold::{Error, Interrupt, LockClient};
    ///
    /// let lock = LockClient::connect(url)?.reentrant_lock("jobs");
    /// let interrupt = Interrupt::new();
    /// let consumer = {
    ///     let (lock, interrupt) = (lock.clone(), interrupt.clone());
    ///     std::thread::spawn(move || {
    ///         let guard = lock.acquire()?;
    ///         let waited = lock.condition("not empty").wait_interruptibly(&interrupt);
    ///         assert!(matches!(waited, Err(Error::Interrupted { .. })));
    ///         guard.unlock()
    ///     })
    /// };
    /// interrupt.interrupt();
    /// consumer.join().unwrap()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Self::wait), and [`Error::Interrupted`](crate::Error::Interrupted): the
    /// lock is held. If the interrupt was raised before the call, the lock was not released. A
    /// thread that was notified returns without this error.
    pub fn wait_interruptibly(&self, interrupt: &Interrupt) -> Result<()> {
        let waited = self.wait_for_interruptibly(Duration::MAX, interrupt);
        waited.map(drop)
    }

    /// Releases the lock, waits for a notification for at most `wait` and until `interrupt` is
    /// raised, and acquires the lock again. Returns false if the time was over without a
    /// notification.
    ///
    /// # Errors
    ///
    /// Those of [`wait_interruptibly`](Self::wait_interruptibly).
    #[must_use = "false means that the time was over"]
    pub fn wait_for_interruptibly(&self, wait: Duration, interrupt: &Interrupt) -> Result<bool> {
        self.lock.wait_on(&self.name, wait, Some(interrupt))
    }

    /// Notifies the thread that has waited longest, if any waits. It continues when it has the
    /// lock, so at the earliest when this thread has unlocked it.
    ///
    /// # Errors
    ///
    /// * [`Error::NotHeld`](crate::Error::NotHeld) if this thread does not hold the lock. No I/O.
    /// * [`Error::Lost`](crate::Error::Lost) if the lock is lost. No thread was notified, except
    ///   by an earlier copy of the request to which the reply was lost.
    /// * [`Error::Unavailable`](crate::Error::Unavailable) after three
    ///   [command timeouts](crate::LockClientBuilder::command_timeout) without a reply. A thread
    ///   may have been notified. Another call then may notify a second one.
    /// * The others of [`wait`](Self::wait).
    pub fn notify_one(&self) -> Result<()> {
        self.lock.notify(&self.name, Notified::One)
    }

    /// Notifies all threads that wait. Each continues when it has the lock.
    ///
    /// # Errors
    ///
    /// Those of [`notify_one`](Self::notify_one).
    pub fn notify_all(&self) -> Result<()> {
        self.lock.notify(&self.name, Notified::All)
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition")
            .field("lock", &Short(self.lock.name()))
            .field("name", &Short(&self.name))
            .finish()
    }
}
