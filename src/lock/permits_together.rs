//! Several permits of a semaphore that one call acquires.

use std::time::Duration;

use super::{LeasedSemaphore, PermitGuard};
use crate::base::Interrupt;
use crate::engine::SingleLock;
use crate::error::{Error, Result};
use crate::lease::Lease;

/// The most permits that one call acquires. It bounds the time of a script.
const MOST_TOGETHER: usize = 1_000;

/// Several permits at once.
impl LeasedSemaphore {
    /// Acquires `permits` permits with `lease`, all of them or none, and waits until that many are
    /// available. One guard has all of them.
    ///
    /// Each permit has an id of its own in Redis, so the costs of a request grow with their number.
    /// [`Semaphore`](crate::Semaphore) takes any number at the cost of one, but without a lease.
    ///
    /// Bounds: 1 to 1,000. A call for more permits than there are waits until there are more.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use leasehold::{Lease, LockClient};
    ///
    /// let client = LockClient::connect(url)?;
    /// let gigabytes = client.leased_semaphore("memory").with_permits(64)?;
    /// let guard = gigabytes.acquire_many(48, Lease::RENEWED)?;
    /// assert_eq!(gigabytes.available()?, 16);
    /// assert_eq!(guard.ids().count(), 48);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`acquire_with`](Self::acquire_with), and [`Error::InvalidArgument`] for a number
    /// outside its bounds.
    pub fn acquire_many(&self, permits: u32, lease: Lease) -> Result<PermitGuard> {
        self.many(permits)?.acquire_with(lease)
    }

    /// Acquires `permits` permits with `lease`, all of them or none, if that many become available
    /// within `wait`; `None` if not. [`Duration::ZERO`] means: do not wait. [`Duration::MAX`]
    /// means: wait indefinitely.
    ///
    /// Bounds: 1 to 1,000.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire`](Self::try_acquire), and [`Error::InvalidArgument`] for a number
    /// outside its bounds.
    #[must_use = "None means that no permit was acquired"]
    pub fn try_acquire_many(
        &self,
        permits: u32,
        wait: Duration,
        lease: Lease,
    ) -> Result<Option<PermitGuard>> {
        self.many(permits)?.try_acquire(wait, lease)
    }

    /// Acquires `permits` permits with `lease`, all of them or none, and waits until that many are
    /// available or `interrupt` is raised.
    ///
    /// Bounds: 1 to 1,000.
    ///
    /// # Errors
    ///
    /// Those of [`acquire_interruptibly`](Self::acquire_interruptibly), and
    /// [`Error::InvalidArgument`] for a number outside its bounds.
    pub fn acquire_many_interruptibly(
        &self,
        permits: u32,
        lease: Lease,
        interrupt: &Interrupt,
    ) -> Result<PermitGuard> {
        self.many(permits)?.acquire_interruptibly(lease, interrupt)
    }

    /// Acquires `permits` permits with `lease`, all of them or none, if that many become available
    /// within `wait`; `None` if not. The wait ends with an error as soon as `interrupt` is raised.
    /// [`Duration::ZERO`] means: do not wait. [`Duration::MAX`] means: wait indefinitely.
    ///
    /// Bounds: 1 to 1,000.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire_interruptibly`](Self::try_acquire_interruptibly), and
    /// [`Error::InvalidArgument`] for a number outside its bounds.
    #[must_use = "None means that no permit was acquired"]
    pub fn try_acquire_many_interruptibly(
        &self,
        permits: u32,
        wait: Duration,
        lease: Lease,
        interrupt: &Interrupt,
    ) -> Result<Option<PermitGuard>> {
        let many = self.many(permits)?;
        many.try_acquire_interruptibly(wait, lease, interrupt)
    }

    /// A handle whose calls acquire this number of permits.
    fn many(&self, permits: u32) -> Result<Self> {
        let rule = "a call can acquire 1 to 1000 permits";
        match usize::try_from(permits) {
            Ok(permits @ 1..=MOST_TOGETHER) => Ok(Self(SingleLock {
                permits,
                ..self.0.clone()
            })),
            _ => Err(Error::argument("permits", permits, rule).concerning(self.name())),
        }
    }
}
