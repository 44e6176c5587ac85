//! The lock of the current function with `#[locked]`.

use std::cell::RefCell;
use std::fmt;
use std::rc::{Rc, Weak};
use std::time::Duration;

use crossbeam_channel::bounded;

use crate::base::Subscription;
use crate::error::{Error, LostReason, Result};
use crate::lock::{LockGuard, Short};
use crate::observe::tell;

thread_local! {
    /// The guards of the locked functions on this thread's stack, the innermost last. The
    /// references are weak, so no destructor of a guard runs while the vector is borrowed.
    static ENTERED: RefCell<Vec<Weak<LockGuard>>> = const { RefCell::new(Vec::new()) };
}

/// Makes a lock the current one of this thread until this value is dropped, at the end of the body
/// or by its panic.
pub(super) struct CurrentCall<'c> {
    guard: &'c LockGuard,
    at_least: Duration,
}

impl<'c> CurrentCall<'c> {
    pub(super) fn new(guard: &'c Rc<LockGuard>, at_least: Duration) -> Self {
        // `try_with`: destructors of an ending thread may call locked functions after this
        // thread-local is destroyed.
        let _ = ENTERED.try_with(|entered| entered.borrow_mut().push(Rc::downgrade(guard)));
        Self { guard, at_least }
    }
}

impl Drop for CurrentCall<'_> {
    fn drop(&mut self) {
        let _ = ENTERED.try_with(|entered| entered.borrow_mut().pop());
        if !self.at_least.is_zero()
            && let Err(error) = self.guard.core.keep_at_least(self.at_least)
        {
            tell(move || tracing::warn!(%error, "the lock of a function is not kept at least"));
        }
    }
}

/// Returns the lock of the innermost function with [`#[locked]`](crate::locked) that the calling
/// thread is executing.
///
/// Outside of such a function it returns a [`CurrentLock`] that is not held: its
/// [`check`](CurrentLock::check) fails with [`Error::NotHeld`].
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::{Error, LockClient, current_lock, locked};
///
/// #[locked(client = client, key = "order:{order}")]
/// fn settle(client: &LockClient, order: u64) -> leasehold::Result<()> {
///     for step in ["read", "compute", "write"] {
///         current_lock().check()?;
///         println!("{step} {order}");
///     }
///     Ok(())
/// }
///
/// settle(&LockClient::connect(url)?, 7)?;
/// assert!(matches!(current_lock().check(), Err(Error::NotHeld { .. })));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn current_lock() -> CurrentLock {
    let innermost = ENTERED.try_with(|entered| entered.borrow().last().cloned());
    let held = innermost.ok().flatten().unwrap_or_default();
    let guard = held.upgrade();
    let name = guard.map_or_else(String::new, |guard| guard.name().into());
    CurrentLock { held, name }
}

/// The lock of a function with [`#[locked]`](crate::locked), for use in its body. [`current_lock`]
/// returns it.
///
/// Only [`extend`](Self::extend) and [`confirm`](Self::confirm) send a request. The value does not
/// keep the lock held: after its function has returned, or if it was made outside of a locked
/// function, it is not held, not lost, and has no token.
///
/// It is not `Send`, because the lock belongs to the thread of the call.
#[derive(Clone)]
pub struct CurrentLock {
    held: Weak<LockGuard>,
    name: String,
}

impl CurrentLock {
    /// The name of the lock, including the prefix. Empty if made outside of a locked function.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fails if this process knows that the lock is lost, like
    /// [`LockGuard::check`](crate::LockGuard::check).
    ///
    /// # Errors
    ///
    /// * [`Error::Lost`] if the lock is lost, or its renewals (`max_renewals`) are used up.
    /// * [`Error::NotHeld`] if this value was made outside of a locked function, or its function
    ///   has returned.
    pub fn check(&self) -> Result<()> {
        self.guard()?.check()
    }

    fn guard(&self) -> Result<Rc<LockGuard>> {
        let held = self.held.upgrade();
        held.ok_or_else(|| Error::not_held(&self.name, false))
    }

    /// Extends the lease once, so that at least `duration` of it is left from now on, like
    /// [`LockGuard::extend`](crate::LockGuard::extend).
    ///
    /// Bounds: 1 ms to 2^53 ms.
    ///
    /// # Errors
    ///
    /// Those of [`LockGuard::extend`](crate::LockGuard::extend), and [`Error::NotHeld`] as
    /// [`check`](Self::check).
    pub fn extend(&self, duration: Duration) -> Result<()> {
        self.guard()?.extend(duration)
    }

    /// Asks Redis whether the lock is still held, like
    /// [`LockGuard::confirm`](crate::LockGuard::confirm).
    ///
    /// # Errors
    ///
    /// Those of [`LockGuard::confirm`](crate::LockGuard::confirm), and [`Error::NotHeld`] as
    /// [`check`](Self::check).
    pub fn confirm(&self) -> Result<()> {
        self.guard()?.confirm()
    }

    /// Keeps the lock in Redis for `time` after the function has returned or panicked, like
    /// [`LockGuard::unlock_after`](crate::LockGuard::unlock_after). This call unlocks nothing: the
    /// body goes on with the lock. Of several calls, the longest `time` counts.
    ///
    /// Bounds: 1 ms to 2^53 ms. With zero, the call does nothing.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use std::time::Duration;
    /// use leasehold::{Error, LockClient, current_lock, locked};
    ///
    /// #[locked(client = client, key = "feed:{feed}")]
    /// fn poll(client: &LockClient, feed: u32) -> leasehold::Result<()> {
    ///     let asked_to_pause = Duration::from_secs(60); // by the server of the feed
    ///     current_lock().unlock_after(asked_to_pause)
    /// }
    ///
    /// let client = LockClient::connect(url)?;
    /// poll(&client, 7)?;
    /// assert!(matches!(poll(&client, 7), Err(Error::HeldByAnother { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// * [`Error::InvalidArgument`] for a `time` outside its bounds, for a permit, and for a write
    ///   lock whose thread also holds the read lock.
    /// * [`Error::NotHeld`] as [`check`](Self::check).
    pub fn unlock_after(&self, time: Duration) -> Result<()> {
        self.guard()?.core.keep_after_unlock(time)
    }

    /// True if [`check`](Self::check) returns [`Error::Lost`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held.upgrade().is_some_and(|guard| guard.is_lost())
    }

    /// The remaining lease by the local clock, like
    /// [`LockGuard::remaining`](crate::LockGuard::remaining). Zero if the lock is lost or not held.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let held = self.held.upgrade();
        held.map_or(Duration::ZERO, |guard| guard.remaining())
    }

    /// The [fencing token](crate::FencedGuard::fencing_token) of a lock with `kind = fenced`.
    /// `None` for other locks, and if the lock is not held.
    #[must_use]
    pub fn fencing_token(&self) -> Option<u64> {
        self.held.upgrade()?.fencing_token()
    }

    /// A channel that receives one message when the lock is lost, like
    /// [`LockGuard::lost`](crate::LockGuard::lost).
    ///
    /// It is disconnected when the hold ends: when the outermost function or guard of this thread
    /// that has this lock releases it. Clones of the channel, each of which gets the message, can
    /// be used on other threads. If the lock is not held, the channel is disconnected at once.
    #[must_use]
    pub fn lost(&self) -> Subscription<LostReason> {
        let held = self.held.upgrade();
        held.map_or_else(|| bounded(0).1.into(), |guard| guard.lost())
    }
}

impl fmt::Debug for CurrentLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(guard) = self.held.upgrade() {
            return guard.show(f, "CurrentLock");
        }
        f.debug_struct("CurrentLock")
            .field("name", &Short(&self.name))
            .field("state", &format_args!("NotHeld"))
            .finish()
    }
}
