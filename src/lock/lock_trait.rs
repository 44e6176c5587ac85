//! The trait of all lock types.

use std::fmt;
use std::time::Duration;

use super::run::{RunError, run_under};
use super::{LockGuard, OwnedGuard};
use crate::base::{Interrupt, Moment};
use crate::error::{Error, Result};
use crate::lease::Lease;

/// How often the provided [`Lock::try_lock_interruptibly`] checks its interrupt.
const INTERRUPT_CHECK: Duration = Duration::from_millis(50);

/// A lock that threads of different processes and machines share. Its methods are those of Java's
/// `java.util.concurrent.locks.Lock`.
///
/// The owner of a lock is one OS thread together with one [`LockClient`](crate::LockClient) and its
/// clones: only this thread can use and unlock the lock, and only through this client. The same
/// thread with another client is another owner. An [`OwnedGuard`] is an owner of its own, which any
/// thread can use.
///
/// The locks are reentrant: a thread that holds the lock can acquire it again, and each acquire
/// adds a level. The lock is free when the thread has unlocked all levels. The levels are counted
/// in this process. A nested acquire sends a request only if its lease is longer than what is left
/// and renewals do not keep it, as with [`Lease::fixed`] of an hour inside [`Lease::RENEWED`].
///
/// The trait is dyn-compatible: a function can have a parameter `&dyn Lock` and leave the kind of
/// lock to its caller. Each lock type also has these methods itself, so only such generic code
/// needs to import the trait.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::{Lock, LockClient};
///
/// fn pay(lock: &dyn Lock) -> leasehold::Result<()> {
///     let guard = lock.acquire()?;
///     println!("paying under {}", guard.name());
///     guard.unlock()
/// }
///
/// let client = LockClient::connect(url)?;
/// pay(&client.reentrant_lock("order:pay"))?;
/// pay(&client.multi_lock(["account:7", "account:4"]))
/// # }
/// ```
///
/// # Errors of every method that asks Redis
///
/// * [`Error::InvalidArgument`] for an invalid name, lease or list of names, if a thread acquires a
///   fenced lock or a [`RedLock`](crate::RedLock) while it holds the same name as a plain lock, and
///   if a [`FairLock`](crate::FairLock) has a name that is held as a plain or fenced lock, or the
///   other way round.
/// * [`Error::Config`] for a master that the sentinels do not know.
/// * [`Error::WrongType`] if the key has a value that is not a lock.
/// * [`Error::Unavailable`] if Redis did not reply in the time that the method states.
/// * [`Error::TooFewReplicas`] if too few replicas confirmed the lock, and
///   [`min_replicas`](crate::LockClientBuilder::min_replicas) requires it.
/// * [`Error::Redis`] if Redis refused the request.
/// * [`Error::Forked`] in a process that was forked from the client's.
/// * [`Error::ShutDown`] after a [`shutdown`](crate::LockClient::shutdown) of the client.
///
/// No method panics.
pub trait Lock: fmt::Debug + Send + Sync {
    /// Returns the name of the lock, without the client's namespace.
    fn name(&self) -> &str;

    /// Acquires the lock with [`Lease::RENEWED`] and waits while another owner holds it, without a
    /// time limit.
    ///
    /// **Returns no guard**, unlike `lock` of [`std::sync::Mutex`]. `let _guard = lock.lock()?;`
    /// compiles, and nothing unlocks. Write `let _guard = lock.acquire()?;`, or call
    /// [`unlock`](Self::unlock) on each way out of the work.
    ///
    /// Prefer [`acquire`](Self::acquire), whose guard unlocks. If a thread ends without unlocking,
    /// the lock is not unlocked, because what the thread began may go on elsewhere, such as in
    /// another process. But it is not renewed any more: it ends with its lease, and the log has a
    /// warning with its name.
    ///
    /// # Errors
    ///
    /// [Those of every method](Lock#errors-of-every-method-that-asks-redis).
    /// [`Error::Unavailable`](crate::Error::Unavailable) is returned after
    /// [`give_up_after`](crate::LockClientBuilder::give_up_after), 10 s by default, without any
    /// reply.
    ///
    /// [`Error::Lost`](crate::Error::Lost) if this thread held the lock, has lost it, and has not
    /// unlocked it since. After an error of a nested call, the outer levels stay.
    fn lock(&self) -> Result<()> {
        self.lock_with(Lease::RENEWED)
    }

    /// Acquires the lock with `lease` and waits while another owner holds it.
    ///
    /// # Errors
    ///
    /// Those of [`lock`](Self::lock).
    fn lock_with(&self, lease: Lease) -> Result<()>;

    /// Acquires the lock with `lease` if it becomes free within `wait`; false if another owner
    /// holds it then. A thread that holds the lock already gets a further level, which it must
    /// unlock, too.
    ///
    /// [`Duration::ZERO`] means: do not wait for other owners. The call still waits for the replies
    /// of Redis. [`Duration::MAX`] means: wait indefinitely. If another thread of this client is
    /// requesting the lock, this call waits for the reply to that request, and uses it as its own.
    ///
    /// **Use the result.** The compiler does not warn about a statement `lock.try_lock(..)?;`,
    /// which does not tell whether the thread holds the lock.
    ///
    /// # Errors
    ///
    /// Those of [`lock`](Self::lock). [`Error::Unavailable`](crate::Error::Unavailable) is returned
    /// at the end of `wait`, or of one command timeout if that is longer, and at most 250 ms later;
    /// but after [`give_up_after`](crate::LockClientBuilder::give_up_after) without any reply,
    /// however long `wait` is.
    #[must_use = "false means that the lock is not held"]
    fn try_lock(&self, wait: Duration, lease: Lease) -> Result<bool>;

    /// Acquires the lock with `lease` and waits while another owner holds it, until `interrupt` is
    /// raised.
    ///
    /// While Redis does not reply, the call sends its request again, without a time limit. It
    /// notices the interrupt when the request under way ends, within the timeouts of the connection
    /// and the command together, or later while the server replies to earlier requests first. Then
    /// it takes at most 250 ms to tell Redis that the thread waits no more. [`Interrupt`] has an
    /// example.
    ///
    /// # Errors
    ///
    /// Those of [`lock`](Self::lock), and [`Error::Interrupted`](crate::Error::Interrupted), also
    /// if the interrupt was raised before.
    fn lock_interruptibly(&self, lease: Lease, interrupt: &Interrupt) -> Result<()>;

    /// Acquires the lock with `lease` if it becomes free within `wait`; false if another owner
    /// holds it then. The wait ends with an error as soon as `interrupt` is raised. This is Java's
    /// `tryLock(time, unit)`, which throws `InterruptedException`.
    ///
    /// The values of `wait` mean the same as for [`try_lock`](Self::try_lock). The call notices the
    /// interrupt when the request under way ends, within the timeouts of the connection and the
    /// command together, or later while the server replies to earlier requests first.
    ///
    /// With the locks of this crate, the thread keeps its place in the queue during the whole call.
    /// The provided method, for other implementations, calls [`try_lock`](Self::try_lock) for 50 ms
    /// at a time.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock`](Self::try_lock), and
    /// [`Error::Interrupted`](crate::Error::Interrupted), also if the interrupt was raised before.
    #[must_use = "false means that the lock is not held"]
    fn try_lock_interruptibly(
        &self,
        wait: Duration,
        lease: Lease,
        interrupt: &Interrupt,
    ) -> Result<bool> {
        let end = Moment::now().after(wait);
        loop {
            if interrupt.is_interrupted() {
                let lock = self.name().into();
                return Err(Error::Interrupted { lock });
            }
            let is_held = self.try_lock(end.left().min(INTERRUPT_CHECK), lease)?;
            if is_held || end.is_past() {
                return Ok(is_held);
            }
        }
    }

    /// Unlocks the newest level of this thread that has no guard. The lock is free after the last
    /// level.
    ///
    /// Only the last level sends a request: it releases the lock in Redis. If another thread of
    /// this client waits for the lock, this thread may instead hand the lock over to it. With
    /// [`linger`](crate::LockClientBuilder::linger) the lock may stay in Redis for a while.
    ///
    /// A level with a guard is unlocked only by that guard. So this call never frees a lock whose
    /// guard exists, and never unlocks the level of a forgotten guard ([`std::mem::forget`]).
    ///
    /// After every result except [`Error::NotHeld`](crate::Error::NotHeld) and
    /// [`Error::Forked`](crate::Error::Forked), the level is unlocked in this process. The error
    /// reports what happened in Redis. Another call unlocks the next level.
    ///
    /// # Errors
    ///
    /// [Those of every method](Lock#errors-of-every-method-that-asks-redis), and:
    ///
    /// * [`Error::NotHeld`](crate::Error::NotHeld) if this thread does not hold the lock, or if all
    ///   its levels have guards: unlock a guard instead. Nothing is changed, also not the hold of
    ///   another thread to which this thread has handed the lock over.
    /// * [`Error::Lost`](crate::Error::Lost) if this thread has lost the lock. Another owner may
    ///   have worked at the same time. A lock that another owner holds is not changed.
    /// * [`Error::NotReleased`](crate::Error::NotReleased), only at the last level, after three
    ///   command timeouts without a reply. The release continues in the background, and the lock
    ///   ends with its lease at the latest. Also after a failover during this call, if the new
    ///   server does not have the lock.
    fn unlock(&self) -> Result<()>;

    /// Acquires the lock with [`Lease::RENEWED`] and waits while another owner holds it. The guard
    /// unlocks when it is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`lock`](Self::lock).
    fn acquire(&self) -> Result<LockGuard>;

    /// Acquires the lock with `lease` and waits while another owner holds it. The guard unlocks
    /// when it is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`lock`](Self::lock).
    fn acquire_with(&self, lease: Lease) -> Result<LockGuard> {
        self.lock_with(lease)?;
        with_guard(self, lease)
    }

    /// Acquires the lock with `lease` if it becomes free within `wait`; `None` if another owner
    /// holds it then. The guard unlocks when it is dropped. While Redis does not reply, the call
    /// can take longer than `wait`: up to one command timeout and 250 ms.
    ///
    /// **Keep the guard in a variable with a name**: `if let Some(guard) = lock.try_acquire(..)? {
    /// .. }`. These unlock at once, without a warning of the compiler: `lock.try_acquire(..)?;`,
    /// `let _ = lock.try_acquire(..)?;`, and `if lock.try_acquire(..)?.is_some() { .. }`.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock`](Self::try_lock).
    #[must_use = "None means that the lock is not held"]
    fn try_acquire(&self, wait: Duration, lease: Lease) -> Result<Option<LockGuard>>;

    /// Acquires the lock with [`Lease::RENEWED`] if it becomes free within `wait`; `None` if
    /// another owner holds it then. Keep the guard in a variable with a name. While Redis does not
    /// reply, the call can take longer than `wait`: up to one command timeout and 250 ms.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock`](Self::try_lock).
    #[must_use = "None means that the lock is not held"]
    fn try_acquire_for(&self, wait: Duration) -> Result<Option<LockGuard>> {
        self.try_acquire(wait, Lease::RENEWED)
    }

    /// Acquires the lock with [`Lease::RENEWED`] if it is free; `None` if another owner holds it.
    /// Keep the guard in a variable with a name.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock`](Self::try_lock).
    #[must_use = "None means that the lock is not held"]
    fn try_acquire_now(&self) -> Result<Option<LockGuard>> {
        self.try_acquire(Duration::ZERO, Lease::RENEWED)
    }

    /// Acquires the lock with `lease` and waits while another owner holds it, until `interrupt` is
    /// raised. The guard unlocks when it is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`lock_interruptibly`](Self::lock_interruptibly).
    fn acquire_interruptibly(&self, lease: Lease, interrupt: &Interrupt) -> Result<LockGuard> {
        self.lock_interruptibly(lease, interrupt)?;
        with_guard(self, lease)
    }

    /// Acquires the lock with `lease` if it becomes free within `wait`; `None` if another owner
    /// holds it then. The wait ends with an error as soon as `interrupt` is raised. Keep the guard.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock_interruptibly`](Self::try_lock_interruptibly).
    #[must_use = "None means that the lock is not held"]
    fn try_acquire_interruptibly(
        &self,
        wait: Duration,
        lease: Lease,
        interrupt: &Interrupt,
    ) -> Result<Option<LockGuard>> {
        let is_held = self.try_lock_interruptibly(wait, lease, interrupt)?;
        is_held.then(|| with_guard(self, lease)).transpose()
    }

    /// Acquires the lock with `lease` for a guard that belongs to no thread, and waits while
    /// another owner holds it. The guard can be sent to other threads: see [`OwnedGuard`].
    ///
    /// A thread that holds the lock and calls this waits for itself: unlock first.
    ///
    /// # Errors
    ///
    /// [Those of every method](Lock#errors-of-every-method-that-asks-redis). [`Error::Unavailable`]
    /// is returned after [`give_up_after`](crate::LockClientBuilder::give_up_after) without any
    /// reply.
    fn acquire_owned(&self, lease: Lease) -> Result<OwnedGuard>;

    /// Acquires the lock with `lease` for a guard that belongs to no thread, if it becomes free
    /// within `wait`; `None` if another owner holds it then, such as the calling thread. See
    /// [`OwnedGuard`].
    ///
    /// # Errors
    ///
    /// [Those of every method](Lock#errors-of-every-method-that-asks-redis). [`Error::Unavailable`]
    /// is returned without a reply at the end of `wait`, or of one command timeout if that is
    /// longer, and at most 250 ms later.
    #[must_use = "None means that the lock is not held"]
    fn try_acquire_owned(&self, wait: Duration, lease: Lease) -> Result<Option<OwnedGuard>>;

    /// Acquires the lock with `lease` for a guard that belongs to no thread, and waits while
    /// another owner holds it, until `interrupt` is raised. See [`OwnedGuard`].
    ///
    /// # Errors
    ///
    /// [Those of every method](Lock#errors-of-every-method-that-asks-redis).
    /// [`Error::Interrupted`], also if the interrupt was raised before.
    fn acquire_owned_interruptibly(
        &self,
        lease: Lease,
        interrupt: &Interrupt,
    ) -> Result<OwnedGuard>;

    /// Acquires the lock with `lease`, runs `work` with its guard, and unlocks.
    /// [`ReentrantLock::run`](crate::ReentrantLock::run) has the details. Not for `dyn Lock`.
    ///
    /// # Errors
    ///
    /// [`RunError`] says whether `work` has run.
    fn run<T, E>(
        &self,
        lease: Lease,
        work: impl FnOnce(&LockGuard) -> Result<T, E>,
    ) -> Result<T, RunError<E, T>>
    where
        Self: Sized,
    {
        run_under(self.acquire_with(lease), work, LockGuard::unlock)
    }

    /// Acquires the lock with `lease` if it becomes free within `wait`, runs `work` with its guard,
    /// and unlocks. `None` if another owner holds the lock then, and `work` has not run.
    ///
    /// # Errors
    ///
    /// [`RunError`] says whether `work` has run.
    fn try_run<T, E>(
        &self,
        wait: Duration,
        lease: Lease,
        work: impl FnOnce(&LockGuard) -> Result<T, E>,
    ) -> Result<Option<T>, RunError<E, T>>
    where
        Self: Sized,
    {
        let guard = self.try_acquire(wait, lease).transpose();
        let run = |guard| run_under(guard, work, LockGuard::unlock);
        guard.map(run).transpose()
    }

    /// Returns true if this thread holds the lock, as far as this process knows. No I/O.
    fn is_held_by_current_thread(&self) -> bool {
        self.hold_count() > 0
    }

    /// Returns the number of levels that this thread holds, as far as this process knows; 0 once
    /// the lock is lost. The process counts the levels itself, so the number is exact, unlike the
    /// [`hold_count`](crate::LockStatus::hold_count) in Redis. No I/O.
    fn hold_count(&self) -> u32;

    /// Asks Redis whether any owner holds the lock. A lock that
    /// [lingers](crate::LockClientBuilder::linger) counts as held.
    ///
    /// # Errors
    ///
    /// [Those of every method](Lock#errors-of-every-method-that-asks-redis).
    /// [`Error::Unavailable`](crate::Error::Unavailable) is returned after one command timeout.
    fn is_locked(&self) -> Result<bool>;

    /// Asks Redis how much of the lease is left, whichever owner holds the lock; `None` if it is
    /// free, and [`Duration::MAX`] if it never expires. This crate never sets a lock without an
    /// expiry.
    ///
    /// # Errors
    ///
    /// Those of [`is_locked`](Self::is_locked).
    fn remaining(&self) -> Result<Option<Duration>>;
}

/// Replaces the level that this thread has just acquired by one with a guard.
fn with_guard<L: Lock + ?Sized>(lock: &L, lease: Lease) -> Result<LockGuard> {
    // This thread holds the lock, so this does not wait.
    let guard = lock.try_acquire(Duration::ZERO, lease);
    lock.unlock()?;
    guard?.ok_or_else(|| Error::not_held(lock.name(), false))
}
