//! The guard of permits without leases, which releases them when it is dropped.

use std::fmt;
use std::time::Duration;

use super::Semaphore;
use super::debug::Short;
use crate::base::Interrupt;
use crate::error::Result;
use crate::observe::tell;

/// Permits of a [`Semaphore`]. Dropping the guard releases them, on every way out of a function:
/// also with an error or a panic. Made by [`Semaphore::acquire_guard`].
///
/// **A process that dies does not release them**: the permits have no lease. A
/// [`LeasedSemaphore`](crate::LeasedSemaphore) has one.
///
/// A guard belongs to no thread: it can be sent to another one. Dropping it releases like
/// [`Semaphore::release`], never panics, and logs a warning if that fails: without a reply the
/// client repeats the release in the background. [`release`](Self::release) returns the result
/// instead. If Redis refuses the release, for example without memory, nothing repeats it, and the
/// permits stay taken: return them later by [`Semaphore::release`].
#[must_use = "dropping a guard releases the permits: keep it in a variable with a name, such as \
              `_permits`, because `let _ =` drops it at once"]
pub struct SemaphoreGuard {
    semaphore: Semaphore,
    /// How many permits are to be released.
    permits: u32,
}

/// Permits that a guard releases.
impl Semaphore {
    /// Takes `permits` permits as [`acquire`](Self::acquire) does. The guard releases them.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use leasehold::LockClient;
    ///
    /// let slots = LockClient::connect(url)?.semaphore("report:slots");
    /// slots.try_set_permits(4)?;
    /// let permits = slots.acquire_guard(3)?;
    /// assert_eq!(slots.available()?, 1);
    /// drop(permits);
    /// assert_eq!(slots.available()?, 4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire).
    pub fn acquire_guard(&self, permits: u32) -> Result<SemaphoreGuard> {
        self.acquire(permits).map(|()| self.guard(permits))
    }

    /// Takes `permits` permits as [`try_acquire`](Self::try_acquire) does; `None` if that many are
    /// not free within `wait`. The guard releases them.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire`](Self::try_acquire).
    #[must_use = "None means that no permit was taken"]
    pub fn try_acquire_guard(
        &self,
        permits: u32,
        wait: Duration,
    ) -> Result<Option<SemaphoreGuard>> {
        let is_taken = self.try_acquire(permits, wait)?;
        Ok(is_taken.then(|| self.guard(permits)))
    }

    /// Takes `permits` permits as [`acquire_interruptibly`](Self::acquire_interruptibly) does. The
    /// guard releases them.
    ///
    /// # Errors
    ///
    /// Those of [`acquire_interruptibly`](Self::acquire_interruptibly).
    pub fn acquire_guard_interruptibly(
        &self,
        permits: u32,
        interrupt: &Interrupt,
    ) -> Result<SemaphoreGuard> {
        let taken = self.acquire_interruptibly(permits, interrupt);
        taken.map(|()| self.guard(permits))
    }

    /// Takes `permits` permits as [`try_acquire_interruptibly`](Self::try_acquire_interruptibly)
    /// does; `None` if that many are not free within `wait`. The guard releases them.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire_interruptibly`](Self::try_acquire_interruptibly).
    #[must_use = "None means that no permit was taken"]
    pub fn try_acquire_guard_interruptibly(
        &self,
        permits: u32,
        wait: Duration,
        interrupt: &Interrupt,
    ) -> Result<Option<SemaphoreGuard>> {
        let is_taken = self.try_acquire_interruptibly(permits, wait, interrupt)?;
        Ok(is_taken.then(|| self.guard(permits)))
    }

    fn guard(&self, permits: u32) -> SemaphoreGuard {
        SemaphoreGuard {
            semaphore: self.clone(),
            permits,
        }
    }
}

impl SemaphoreGuard {
    /// Returns the name of the semaphore.
    #[must_use]
    pub fn name(&self) -> &str {
        self.semaphore.name()
    }

    /// Returns how many permits the guard releases.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Releases the permits, and returns the result.
    ///
    /// # Errors
    ///
    /// Those of [`Semaphore::release`].
    pub fn release(mut self) -> Result<()> {
        let permits = std::mem::take(&mut self.permits);
        self.semaphore.release(permits)
    }
}

impl Drop for SemaphoreGuard {
    fn drop(&mut self) {
        // In a forked child, a mutex may stay locked indefinitely.
        if self.permits == 0 || !self.semaphore.0.is_of_this_process() {
            return;
        }
        if let Err(error) = self.semaphore.release(self.permits) {
            tell(move || {
                tracing::warn!(%error, "a guard was dropped, but its permits were not released");
            });
        }
    }
}

impl fmt::Debug for SemaphoreGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemaphoreGuard")
            .field("name", &Short(self.name()))
            .field("permits", &self.permits)
            .finish()
    }
}
