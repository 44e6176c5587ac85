//! The guard of a held lock, which unlocks it when it is dropped.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "macros")]
use super::PermitGuard;
use super::forward::forward;
use super::guard_core::GuardCore;
use super::guard_methods::{fencing_method, guard_methods, unlock_methods};
use crate::base::Subscription;
use crate::composite::Held;
use crate::error::{LostReason, Result};

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
/// A guard stays on its thread (it is not `Send`), because the thread is the owner. For a hold that
/// moves to another thread, call [`acquire_owned`](crate::Lock::acquire_owned); its guard has
/// [`into_token`](crate::OwnedGuard::into_token), by which another process takes the hold over.
///
/// Dropping the guard tries to unlock for one command timeout, never panics, and logs a warning if
/// the lock was lost or Redis did not reply. [`unlock`](Self::unlock) returns the result instead. A
/// level with a guard is unlocked only by that guard: [`Lock::unlock`](crate::Lock::unlock) unlocks
/// only levels without a guard.
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
/// # Examples
///
/// The guard [checks](Self::check) the lock before each step, and [unlocks](Self::unlock):
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
/// A thread waits for [the loss](Self::lost) of its lock and for its work:
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
///
/// A fixed lease is [extended](Self::extend), and Redis [confirms](Self::confirm) the lock before
/// the write that counts:
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use std::time::Duration;
/// use leasehold::{Error, Lease, LockClient};
///
/// let lock = LockClient::connect(url)?.reentrant_lock("order:pay");
/// let guard = lock.acquire_with(Lease::fixed(Duration::from_secs(10)))?;
/// guard.extend(Duration::from_secs(60))?;
/// assert!(guard.remaining() > Duration::from_secs(50));
/// match guard.confirm() {
///     Ok(()) => println!("held: write"),
///     Err(Error::Lost { reason, .. }) => println!("{reason}: do not write"),
///     Err(error) => println!("held for {:?} more, unless {error}", guard.remaining()),
/// }
/// # Ok(())
/// # }
/// ```
///
/// A job runs [at most once](Self::unlock_at_least) in a period, on all machines together. If its
/// process dies, the lease ends with the period:
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use std::time::Duration;
/// use leasehold::{Lease, LockClient};
///
/// let lock = LockClient::connect(url)?.reentrant_lock("report:nightly");
/// let period = Duration::from_secs(3600);
/// if let Some(guard) = lock.try_acquire(Duration::ZERO, Lease::fixed(period))? {
///     println!("the report of this hour");
///     guard.unlock_at_least(period)?; // not `drop`, which would let it run again
/// }
/// assert!(!lock.is_held_by_current_thread());
/// assert!(lock.try_acquire_now()?.is_none());
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
    pub(crate) core: GuardCore,
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
        Self {
            core: GuardCore::new(name, held),
            _thread: PhantomData,
        }
    }

    /// The guard of a permit of a function with `#[locked]`, which belongs to the thread.
    #[cfg(feature = "macros")]
    pub(crate) fn of_permit(permit: PermitGuard) -> Self {
        Self {
            core: permit.core,
            _thread: PhantomData,
        }
    }

    /// The `Debug` output of this guard as a value of the type `shown_as`.
    pub(crate) fn show(&self, f: &mut fmt::Formatter<'_>, shown_as: &str) -> fmt::Result {
        self.core.show(f, shown_as, None)
    }
}

guard_methods!(LockGuard);
fencing_method!(LockGuard);
unlock_methods!(LockGuard, core);

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, "LockGuard")
    }
}
