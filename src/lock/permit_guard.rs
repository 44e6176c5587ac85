//! The guard of a permit, which releases it when it is dropped.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::forward::forward;
use super::guard_core::GuardCore;
use super::guard_methods::{guard_methods, token_methods};
use crate::base::{OwnerId, Subscription};
use crate::composite::Held;
use crate::engine::HeldLock;
use crate::error::{LostReason, Result};

/// A permit of a [`LeasedSemaphore`](crate::LeasedSemaphore), or several that
/// [one call acquired](crate::LeasedSemaphore::acquire_many). Dropping the guard releases them.
///
/// Several permits of a guard have one lease, and are extended, released and given away together.
/// As soon as one of them is lost, the guard is lost. The others are available when the guard is
/// dropped.
///
/// A permit belongs to its guard and to no thread: the guard can be sent to another thread, and
/// several threads can use it.
///
/// **A guard can exist although its permit is lost.** Redis can lose the keys, another program can
/// release the permit by its [id](Self::id), and a process can be paused for longer than its lease.
/// Call [`check`](Self::check) before every step that must not be done without a permit, or receive
/// from [`lost`](Self::lost).
///
/// Dropping a guard tries to release the permit for one command timeout, never panics, and logs a
/// warning if the permit was lost or Redis did not reply. [`release`](Self::release) returns the
/// result instead. A guard that is forgotten ([`std::mem::forget`]) keeps the client's threads
/// running, and a renewed lease is renewed until the process ends. No method panics.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::LockClient;
///
/// let client = LockClient::connect(url)?;
/// let semaphore = client.leased_semaphore("mail:senders");
/// semaphore.try_set_permits(3)?;
/// let guard = semaphore.acquire()?;
/// let sender = std::thread::spawn(move || {
///     for mail in ["first", "second"] {
///         guard.check()?;
///         println!("send {mail}");
///     }
///     guard.release()
/// });
/// sender.join().unwrap()?;
/// assert_eq!(semaphore.available()?, 3);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a guard releases the permit: keep it in a variable with a name, such as \
              `_permit`, because `let _ =` drops it at once"]
pub struct PermitGuard {
    pub(super) core: GuardCore,
    id: OwnerId,
}

impl PermitGuard {
    /// The guard of the permits of one grant.
    pub(crate) fn of(name: Arc<str>, permit: HeldLock) -> Self {
        Self {
            id: permit.hold.grant().owner().clone(),
            core: GuardCore::new(name, Held::One(permit)),
        }
    }

    /// Returns the id of the permit, or of the first of several: 32 hexadecimal characters in lower
    /// case, the form in which Redisson's `RPermitExpirableSemaphore` returns ids. No other permit
    /// ever has this id. [`LeasedSemaphore::release`](crate::LeasedSemaphore::release) takes it.
    #[must_use]
    pub fn id(&self) -> &str {
        self.ids().next().unwrap_or_default()
    }

    /// Returns the ids of all permits of the guard: one for each, in the form of [`id`](Self::id).
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.id.permit_ids()
    }

    /// Releases the permit, and returns the result.
    ///
    /// # Errors
    ///
    /// * [`Error::Lost`](crate::Error::Lost) if the permit was lost before.
    /// * [`Error::NotReleased`](crate::Error::NotReleased) after three command timeouts without a
    ///   reply. The watchdog repeats the release until there is a reply, or until the lease has
    ///   ended.
    /// * [`Error::Redis`](crate::Error::Redis) if Redis refused. The permit is available when its
    ///   lease ends.
    /// * [`Error::Forked`](crate::Error::Forked) in a process that was forked from the client's.
    pub fn release(self) -> Result<()> {
        self.core.unlock()
    }
}

guard_methods!(PermitGuard);
token_methods! { PermitGuard:
    /// [`LockClient::adopt_permit`](crate::LockClient::adopt_permit)
}

impl fmt::Debug for PermitGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.show(f, "PermitGuard", Some(("id", &self.id())))
    }
}
