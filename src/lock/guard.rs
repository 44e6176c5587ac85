//! The guard of a held lock, which unlocks it when it is dropped.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::forward::forward;
use super::guard_core::GuardCore;
use crate::base::subscription::Subscription;
use crate::composite::Held;
use crate::error::{LostReason, Result};
use crate::lease::whole_millis;

/// A lock that this thread holds. Dropping the guard unlocks. The guard of a nested acquire stands
/// for one level of the lock: dropping it sends nothing.
///
/// **Keep a guard in a variable with a name**, such as `_guard`: `let _ = lock.acquire()?` unlocks
/// at once. So do `lock.try_acquire_now()?;` and `lock.try_acquire_now()?.is_some()`, about which
/// the compiler does not warn.
///
/// **A guard can exist although its lock is lost.** Redis can lose the key, and a process can be
/// paused for longer than its lease. Call [`check`](Self::check) before every step that must not
/// happen twice, or receive from [`lost`](Self::lost).
///
/// A guard stays on its thread (it is not `Send`), because the thread is the owner. Dropping it
/// tries to unlock for one command timeout, never panics, and logs a warning if the lock was lost
/// or Redis did not reply. [`unlock`](Self::unlock) returns the result instead. A level with a
/// guard is unlocked only by that guard: [`Lock::unlock`](crate::Lock::unlock) unlocks only levels
/// without a guard.
///
/// A guard that is forgotten ([`std::mem::forget`]) keeps the client's threads running. A renewed
/// lease is then renewed until the thread ends, unless
/// [`force_unlock`](crate::LockClient::force_unlock) frees the lock. After such a loss, the thread
/// that forgot the guard cannot acquire the lock again through this client: it gets
/// [`Error::Lost`](crate::Error::Lost).
///
/// A guard of several locks ([`MultiLock`](crate::MultiLock)) stands for all of them. It is lost as
/// soon as one of them is lost, its remaining lease is the shortest one, and it extends and unlocks
/// all of them.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::LockClient;
///
/// let client = LockClient::connect(url)?;
/// let lock = client.reentrant_lock("order:pay");
/// let guard = lock.acquire()?;
/// for step in ["read", "compute", "write"] {
///     guard.check()?;
///     println!("{step}");
/// }
/// guard.unlock()?;
/// # Ok(())
/// # }
/// ```
///
/// A guard cannot be sent to another thread. The compiler reports
/// "`(dyn leasehold::lock::guard::GuardBelongsToItsThread + 'static)` cannot be sent between
/// threads safely":
///
/// ```compile_fail,E0277
/// # fn main() -> leasehold::Result<()> {
/// # let client = leasehold::LockClient::connect("redis://127.0.0.1:6379")?;
/// let guard = client.reentrant_lock("order:pay").acquire()?;
/// std::thread::spawn(move || drop(guard));
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a guard unlocks: keep it in a variable with a name, such as `_guard`, \
              because `let _ =` drops it at once"]
pub struct LockGuard {
    core: GuardCore,
    token: Option<u64>,
    _thread: PhantomData<dyn GuardBelongsToItsThread>,
}

/// Makes a guard not `Send`: a trait object is `Send` only if its trait is. The compiler's error
/// about a guard that is sent to another thread shows this name. Other threads may use a reference.
trait GuardBelongsToItsThread: Sync + Unpin {}

impl LockGuard {
    /// The guard of a lock that this thread has acquired.
    pub(super) fn of(name: Arc<str>, held: impl Into<Held>) -> Self {
        let held = held.into();
        for level in held.levels() {
            level.hold.guard(level.level);
        }
        let token = match &held {
            Held::One(level) => level.hold.token(),
            Held::Several { .. } => None,
        };
        Self {
            token,
            core: GuardCore::new(name, held),
            _thread: PhantomData,
        }
    }

    forward! { to core:
        /// Returns the name of the lock.
        #[must_use]
        pub fn name(&self) -> &str;

        /// Fails as soon as this process knows that the lock is lost. No I/O.
        ///
        /// The process knows of a loss at the latest when the lease may have ended by the local
        /// clock, which is a little before it ends in Redis (see [`remaining`](Self::remaining)).
        /// It knows earlier if Redis reports that the lock was deleted or has another owner:
        ///
        /// * The watchdog asks Redis about every second: see
        ///   [`confirm_every`](crate::LockClientBuilder::confirm_every).
        /// * It also learns that from each renewal, and asks once for a lease that is not renewed.
        ///   So a deleted lock is noticed within two thirds of its lease in any case.
        ///
        /// # Errors
        ///
        /// [`Error::Lost`](crate::Error::Lost), and [`Error::Forked`](crate::Error::Forked) in a
        /// process that was forked from the client's.
        pub fn check(&self) -> Result<()>;

        /// Returns true if [`check`](Self::check) fails because the lock is lost. No I/O.
        #[must_use]
        pub fn is_lost(&self) -> bool;

        /// Returns a channel that gets one message when the lock is lost, for `recv_timeout` or
        /// `select!`. If the lock is lost already, the message is in it.
        ///
        /// Each call returns a channel of its own. Other threads may receive from clones, each of
        /// which [gets the message, too](crate::Subscription). The channel is disconnected after the
        /// message, and when the lock was unlocked and its last guard is dropped. It belongs to the
        /// hold of this thread: a thread to which the lock is handed over has other channels.
        ///
        /// The watchdog sends the message at once when it notices the loss. While Redis hangs, the
        /// message is at most a quarter of a command timeout late; it is at most one command
        /// timeout late if the lock was acquired while the watchdog waited for a reply.
        /// [`check`](Self::check) does not depend on the watchdog.
        ///
        /// ```
        /// # fn main() -> leasehold::Result<()> {
        /// # let server = redis_test::server::RedisServer::new();
        /// # let url = &format!("redis://{}", server.addr);
        /// use leasehold::LockClient;
        /// use leasehold::crossbeam_channel::{bounded, select};
        ///
        /// let guard = LockClient::connect(url)?.reentrant_lock("order:pay").acquire()?;
        /// let (sender, jobs) = bounded(1);
        /// # sender.send("job").unwrap();
        /// select! {
        ///     recv(guard.lost()) -> reason => println!("stop: {reason:?}"),
        ///     recv(jobs) -> job => println!("work on {job:?}"),
        /// }
        /// # Ok(())
        /// # }
        /// ```
        #[must_use]
        pub fn lost(&self) -> Subscription<LostReason>;

        /// Returns what is left of the lease by the local clock; zero once the lock is lost. No
        /// I/O.
        ///
        /// If Redis keeps the key ([limits](crate#limits)), no other client can acquire the lock
        /// within this time, even if no renewal succeeds.
        ///
        /// This is less than what is left in Redis, by a hundredth of the lease and 2 ms (at most
        /// half of the lease), in case the server's clock runs faster.
        #[must_use]
        pub fn remaining(&self) -> Duration;

        /// Extends the lease once, so that at least `duration` of it is left from now on. Never
        /// shortens the lease. The renewals by the watchdog do not change.
        ///
        /// Bounds: 1 ms to 2^53 ms.
        ///
        /// ```
        /// # fn main() -> leasehold::Result<()> {
        /// # let server = redis_test::server::RedisServer::new();
        /// # let url = &format!("redis://{}", server.addr);
        /// use std::time::Duration;
        /// use leasehold::{Lease, LockClient};
        ///
        /// let lock = LockClient::connect(url)?.reentrant_lock("order:pay");
        /// let guard = lock.acquire_with(Lease::fixed(Duration::from_secs(10)))?;
        /// guard.extend(Duration::from_secs(60))?;
        /// assert!(guard.remaining() > Duration::from_secs(50));
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        ///
        /// * [`Error::Lost`](crate::Error::Lost) if the lock is lost.
        /// * [`Error::Unavailable`](crate::Error::Unavailable) after one command timeout without a
        ///   reply, [`Error::Redis`](crate::Error::Redis) if Redis refused. This process then
        ///   assumes that the lease was not extended.
        /// * [`Error::Config`](crate::Error::Config) for a `duration` outside its bounds.
        /// * [`Error::Forked`](crate::Error::Forked) in a process that was forked from the
        ///   client's.
        pub fn extend(&self, duration: Duration) -> Result<()>;

        /// Asks Redis whether this thread still holds the lock. [`check`](Self::check) only knows
        /// the result of the last renewal.
        ///
        /// `Ok` means that Redis has confirmed the lock since this call began. A guard of several
        /// locks needs the confirmation of all of them, a guard of a [`RedLock`](crate::RedLock)
        /// that of a majority of the servers. The lease does not change.
        ///
        /// ```
        /// # fn main() -> leasehold::Result<()> {
        /// # let server = redis_test::server::RedisServer::new();
        /// # let url = &format!("redis://{}", server.addr);
        /// use leasehold::{Error, LockClient};
        ///
        /// let client = LockClient::connect(url)?;
        /// let guard = client.reentrant_lock("order:pay").acquire()?;
        /// match guard.confirm() {
        ///     Ok(()) => println!("held: write"),
        ///     Err(Error::Lost { reason, .. }) => println!("{reason}: do not write"),
        ///     Err(error) => println!("held for {:?} more, unless {error}", guard.remaining()),
        /// }
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        ///
        /// * [`Error::Lost`](crate::Error::Lost) if the lock is lost: stop the work, as after a
        ///   failed `check`.
        /// * [`Error::Unavailable`](crate::Error::Unavailable) after one command timeout without a
        ///   reply, [`Error::Redis`](crate::Error::Redis) if Redis refused. If Redis keeps the key,
        ///   the lock is still held for [`remaining`](Self::remaining).
        /// * [`Error::Forked`](crate::Error::Forked) in a process that was forked from the
        ///   client's.
        pub fn confirm(&self) -> Result<()>;
    }

    /// Unlocks, and returns the result.
    ///
    /// # Errors
    ///
    /// Those of [`Lock::unlock`](crate::Lock::unlock).
    pub fn unlock(mut self) -> Result<()> {
        self.core.release()
    }

    /// Unlocks in this process, and keeps the lock in Redis for `time` from now on, regardless of
    /// the remaining lease. Until then no client can acquire it, including this one, and
    /// [`inspect`](crate::LockClient::inspect) shows another owner id.
    ///
    /// So a job can run at most once in a period: the lease is [fixed](crate::Lease::fixed) and as
    /// long as the period, and after the work the lock is kept for the rest of it. With a renewed
    /// lease, the job would run again in the same period if its process died.
    ///
    /// If outer levels of the thread remain, `time` begins when the last of them is unlocked, and
    /// the longest `time` of these levels counts. The same is true of threads that hold the read
    /// lock of a [`ReadWriteLock`](crate::ReadWriteLock) together, through one client. If a thread
    /// with the write lock begins to read before its last level is unlocked, the lock stays held at
    /// least until the lease of its read lock ends.
    ///
    /// Bounds: 1 ms to 2^53 ms. With zero, the call is [`unlock`](Self::unlock).
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use std::time::Duration;
    /// use std::time::Instant;
    /// use leasehold::{Lease, LockClient};
    ///
    /// let lock = LockClient::connect(url)?.reentrant_lock("report:nightly");
    /// let (period, began) = (Duration::from_secs(3600), Instant::now());
    /// if let Some(guard) = lock.try_acquire(Duration::ZERO, Lease::fixed(period))? {
    ///     println!("the report of this hour");
    ///     guard.unlock_after(period.saturating_sub(began.elapsed()))?;
    /// }
    /// assert!(!lock.is_held_by_current_thread());
    /// assert!(lock.try_acquire_now()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// * Those of [`Lock::unlock`](crate::Lock::unlock).
    /// * [`Error::Config`](crate::Error::Config) for a `time` outside its bounds, and for a write
    ///   lock whose thread also holds the read lock. The guard then unlocks at once, as if it were
    ///   dropped.
    /// * [`Error::NotReleased`](crate::Error::NotReleased): nothing is repeated in the background.
    pub fn unlock_after(mut self, time: Duration) -> Result<()> {
        if time.is_zero() {
            return self.unlock();
        }
        let millis = whole_millis("time", time);
        let millis = millis.map_err(|error| error.concerning(self.name()))?;
        for level in self.core.held.levels() {
            level.check_process()?;
            level.check_reads_not()?;
        }
        for level in self.core.held.levels() {
            level.hold.keep_in_redis(millis);
        }
        self.core.release()
    }

    /// Returns the fencing token of the hold; `None` if the lock is not a
    /// [`FencedLock`](crate::FencedLock). No I/O.
    ///
    /// [`FencedGuard::fencing_token`](crate::FencedGuard::fencing_token) has the details.
    #[must_use]
    pub fn fencing_token(&self) -> Option<u64> {
        self.token
    }

    /// The `Debug` output of this guard as a value of the type `shown_as`.
    pub(crate) fn show(&self, f: &mut fmt::Formatter<'_>, shown_as: &str) -> fmt::Result {
        let token = self.token.as_ref().map(|token| ("token", token as _));
        self.core.show(f, shown_as, token)
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, "LockGuard")
    }
}
