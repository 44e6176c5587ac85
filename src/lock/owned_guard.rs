//! The guard of a lock that belongs to no thread.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::forward::forward;
use super::guard_core::GuardCore;
use super::guard_methods::{fencing_method, guard_methods, token_methods, unlock_methods};
use crate::base::Subscription;
use crate::composite::Held;
use crate::error::{LostReason, Result};

/// A lock that this guard holds, whichever thread has the guard. Made by
/// [`acquire_owned`](crate::Lock::acquire_owned),
/// [`try_acquire_owned`](crate::Lock::try_acquire_owned),
/// [`acquire_owned_interruptibly`](crate::Lock::acquire_owned_interruptibly) and
/// [`LockClient::adopt`](crate::LockClient::adopt). Dropping the guard unlocks.
///
/// The hold belongs to the guard and to no thread: the guard can be sent to another thread, kept in
/// a value that outlives the thread, or held across an `.await`. Each thread can check, extend and
/// unlock it. The end of the thread that acquired it does not end its renewals.
///
/// * **It is not reentrant.** Every other acquire of the lock waits, also in the thread that made
///   the guard: [`lock`](crate::Lock::lock) in that thread waits until the guard is dropped. A
///   thread that holds the lock and calls `acquire_owned` deadlocks.
/// * For [`is_held_by_current_thread`](crate::Lock::is_held_by_current_thread) and
///   [`unlock`](crate::Lock::unlock), no thread holds it.
/// * Readers have a hold of their own in Redis each, and do not share one with the threads of their
///   client.
///
/// **A guard can exist although its lock is lost.** Redis can lose the key, and a process can be
/// paused for longer than its lease. Call [`check`](Self::check) before every step that must not
/// happen twice, or receive from [`lost`](Self::lost). A lost guard keeps no client and no thread
/// from acquiring the lock again, and no thread has to unlock it.
///
/// # Drop
///
/// Dropping the guard does not wait for Redis, so it may be dropped in asynchronous code. Its
/// renewals end at once. If no thread of the client waits for the lock, a thread of the client
/// sends the release, and repeats it until Redis replies or the lease has ended. A client with a
/// [linger time](crate::LockClientBuilder::linger) keeps the lock for that time first. A warning is
/// logged if the lock was lost. [`unlock`](Self::unlock) waits, and returns the result.
///
/// If the process ends just after the drop, and its client was not dropped (it is a `static`, or
/// the process calls [`exit`](std::process::exit)), nothing may have sent the release: the lock is
/// free when its lease ends. Call [`unlock`](Self::unlock), or
/// [`shutdown`](crate::LockClient::shutdown) before the end.
///
/// If the guard is the last value of its client, its drop also ends the client, which waits for the
/// release, for at most two command timeouts. A clone of the client in the application prevents
/// that. A guard that is forgotten ([`std::mem::forget`]) keeps the lock, and a renewed lease is
/// renewed until the process ends.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::{Lease, LockClient};
///
/// let client = LockClient::connect(url)?;
/// let lock = client.reentrant_lock("order:pay");
/// let guard = lock.acquire_owned(Lease::RENEWED)?;
/// assert!(lock.try_acquire_now()?.is_none());
/// let worker = std::thread::spawn(move || {
///     guard.check()?;
///     println!("paying under {}", guard.name());
///     guard.unlock()
/// });
/// worker.join().unwrap()?;
/// assert!(!lock.is_locked()?);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a guard unlocks: keep it in a variable with a name, such as `_guard`, \
              because `let _ =` drops it at once"]
pub struct OwnedGuard {
    core: GuardCore,
}

impl OwnedGuard {
    /// The guard of a lock that was acquired for a guard.
    pub(crate) fn of(name: Arc<str>, held: impl Into<Held>) -> Self {
        Self {
            core: GuardCore::new(name, held.into()),
        }
    }
}

guard_methods!(OwnedGuard);
fencing_method!(OwnedGuard);
unlock_methods!(OwnedGuard, core);
token_methods! { OwnedGuard:
    /// [`LockClient::adopt`](crate::LockClient::adopt)
}

impl fmt::Debug for OwnedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.show(f, "OwnedGuard", None)
    }
}
