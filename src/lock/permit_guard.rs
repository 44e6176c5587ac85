//! The guard of a permit, which releases it when it is dropped.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::forward::forward;
use super::guard_core::GuardCore;
use crate::base::owner::OwnerId;
use crate::base::subscription::Subscription;
use crate::composite::Held;
use crate::engine::HeldLock;
use crate::error::{LostReason, Result};

/// A permit of a [`LeasedSemaphore`](crate::LeasedSemaphore). Dropping the guard releases it.
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
    core: GuardCore,
    id: OwnerId,
}

impl PermitGuard {
    /// The guard of a permit, which has one part.
    pub(super) fn of(name: Arc<str>, permit: HeldLock) -> Self {
        Self {
            id: permit.hold.grant().owner().clone(),
            core: GuardCore::new(name, Held::One(permit)),
        }
    }

    forward! { to core:
        /// Returns the name of the semaphore.
        #[must_use]
        pub fn name(&self) -> &str;
    }

    /// Returns the id of the permit: 32 hexadecimal characters in lower case, the form in which
    /// Redisson's `RPermitExpirableSemaphore` returns ids. No other permit ever has this id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    forward! { to core:
        /// Fails as soon as this process knows that the permit is lost. No I/O.
        ///
        /// The process knows of a loss at the latest when the lease may have ended by the local
        /// clock, which is a little before it ends in Redis (see [`remaining`](Self::remaining)).
        /// It knows earlier if the watchdog finds that the permit is gone, which it does in the
        /// same time as for a lock: see [`LockGuard::check`](crate::LockGuard::check).
        ///
        /// # Errors
        ///
        /// [`Error::Lost`](crate::Error::Lost), and [`Error::Forked`](crate::Error::Forked) in a
        /// process that was forked from the client's.
        pub fn check(&self) -> Result<()>;

        /// Returns true if [`check`](Self::check) fails because the permit is lost. No I/O.
        #[must_use]
        pub fn is_lost(&self) -> bool;

        /// Returns a channel that gets one message when the permit is lost, for `recv_timeout` or
        /// `select!`. It is disconnected when the guard is dropped.
        ///
        /// Each call returns a channel of its own, and each clone gets the message, too.
        /// [`LockGuard::lost`](crate::LockGuard::lost) has the details and an example.
        #[must_use]
        pub fn lost(&self) -> Subscription<LostReason>;

        /// Returns what is left of the lease by the local clock; zero once the permit is lost. No
        /// I/O.
        ///
        /// If Redis keeps the keys ([limits](crate#limits)), no other client can get this permit
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
        /// # Errors
        ///
        /// * [`Error::Lost`](crate::Error::Lost) if the permit is lost.
        /// * [`Error::Unavailable`](crate::Error::Unavailable) after one command timeout without a
        ///   reply, [`Error::Redis`](crate::Error::Redis) if Redis refused. This process then
        ///   assumes that the lease was not extended.
        /// * [`Error::Config`](crate::Error::Config) for a `duration` outside its bounds.
        /// * [`Error::Forked`](crate::Error::Forked) in a process that was forked from the
        ///   client's.
        pub fn extend(&self, duration: Duration) -> Result<()>;

        /// Asks Redis whether the permit is still leased to this guard. [`check`](Self::check) only
        /// knows the result of the last renewal. The lease does not change.
        ///
        /// # Errors
        ///
        /// * [`Error::Lost`](crate::Error::Lost) if the permit is lost.
        /// * [`Error::Unavailable`](crate::Error::Unavailable) after one command timeout without a
        ///   reply, [`Error::Redis`](crate::Error::Redis) if Redis refused. If Redis keeps the
        ///   keys, the permit is still leased for [`remaining`](Self::remaining).
        /// * [`Error::Forked`](crate::Error::Forked) in a process that was forked from the
        ///   client's.
        pub fn confirm(&self) -> Result<()>;
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
    pub fn release(mut self) -> Result<()> {
        self.core.release()
    }
}

impl fmt::Debug for PermitGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.show(f, "PermitGuard", Some(("id", &self.id())))
    }
}
