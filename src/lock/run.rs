//! Work that runs under a lock, and an error that says whether it has run.

use std::fmt;

use crate::error::{Error, Result};

/// Why a [`run`](crate::ReentrantLock::run) under a lock failed, and whether its work has run.
///
/// `E` is the error of the work, and `T` its value.
///
/// Only [`NotRun`](Self::NotRun) permits a repetition without doing the work twice: repeat the call
/// if its error [is transient](Error::is_transient). An error of a call within the work, such as
/// [`extend`](crate::LockGuard::extend) or the acquire of another lock, is the work's own error,
/// also if it is transient.
///
/// The text contains the text of the errors. [`source`](std::error::Error::source) returns none of
/// them; programs read them from the variant.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::{Lease, LockClient, RunError};
///
/// fn pay(amount: u32) -> Result<u32, String> {
///     if amount > 100 { Err("too much".into()) } else { Ok(amount) }
/// }
///
/// let lock = LockClient::connect(url)?.reentrant_lock("order:pay");
/// let paid = loop {
///     match lock.run(Lease::RENEWED, |_guard| pay(101)) {
///         Err(RunError::NotRun(error)) if error.is_transient() => {
///             std::thread::sleep(std::time::Duration::from_secs(1)); // then repeat
///         }
///         result => break result,
///     }
/// };
/// match paid {
///     Ok(amount) => println!("{amount} is paid"),
///     Err(RunError::NotRun(error)) => println!("nothing is paid: {error}"),
///     Err(RunError::Failed(error)) => println!("the payment failed: {error}"),
///     Err(RunError::Unlock { error, result }) => println!("look at {result:?}: {error}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub enum RunError<E, T = ()> {
    /// The lock was not acquired, so the work has not run.
    NotRun(Error),

    /// The work has run and returned this error. The lock was held until its end, and is unlocked.
    Failed(E),

    /// The work has run, but the lock was lost meanwhile, or its release is unknown. Do not repeat
    /// the work: look first at what it did.
    Unlock {
        /// The error of [`LockGuard::unlock`](crate::LockGuard::unlock): [`Error::Lost`] if another
        /// client may have had the lock before the work ended, [`Error::NotReleased`] if the lock
        /// was held until then, and is released in the background.
        error: Box<Error>,
        /// What the work returned.
        result: Result<T, E>,
    },
}

impl<E: fmt::Display, T> fmt::Display for RunError<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun(error) => write!(f, "the work has not run: {error}"),
            Self::Failed(error) => write!(f, "the work failed: {error}"),
            Self::Unlock { error, result } => {
                match result {
                    Ok(_) => f.write_str("the work succeeded")?,
                    Err(error) => write!(f, "the work failed ({error})")?,
                }
                write!(f, "; then the unlock failed: {error}")
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display, T: fmt::Debug> std::error::Error for RunError<E, T> {}

/// Runs `work` with `guard` if the lock was acquired, and unlocks it.
pub(super) fn run_under<G, T, E>(
    guard: Result<G>,
    work: impl FnOnce(&G) -> Result<T, E>,
    unlock: impl FnOnce(G) -> Result<()>,
) -> Result<T, RunError<E, T>> {
    let guard = guard.map_err(RunError::NotRun)?;
    let result = work(&guard);
    match unlock(guard) {
        Ok(()) => result.map_err(RunError::Failed),
        Err(error) => Err(RunError::Unlock {
            error: Box::new(error),
            result,
        }),
    }
}

/// Implements for a lock type the methods that run work with a guard of the type `$guard`.
macro_rules! run_methods {
    ($lock:ident, $guard:ident) => {
        /// Work under the lock.
        impl $lock {
            /// Acquires the lock with `lease` and waits while another owner holds it, runs
            /// `work` with the guard, and unlocks. The error says whether `work` has run:
            ///
            /// | the lock | `work` | result |
            /// |---|---|---|
            /// | was not acquired | has not run | `Err(RunError::NotRun(..))` |
            /// | was held, and is unlocked | returned `Ok(value)` | `Ok(value)` |
            /// | was held, and is unlocked | returned an error | `Err(RunError::Failed(..))` |
            /// | was lost, or its release is unknown | has run | `Err(RunError::Unlock { .. })` |
            /// | is unlocked | panicked | the panic continues |
            ///
            /// So only a call that returns [`NotRun`](crate::RunError::NotRun) can be repeated
            /// without doing the work twice. [`Unlock`](crate::RunError::Unlock) contains what
            /// `work` returned. Long work checks its guard.
            ///
            /// ```
            /// # fn main() -> leasehold::Result<()> {
            /// # let server = redis_test::server::RedisServer::new();
            /// # let url = &format!("redis://{}", server.addr);
            /// use leasehold::{Lease, LockClient, LockGuard, RunError};
            ///
            /// fn pay(guard: &LockGuard) -> leasehold::Result<u32> {
            ///     guard.check()?;
            ///     Ok(20 + 22)
            /// }
            ///
            /// let lock = LockClient::connect(url)?.reentrant_lock("order:pay");
            /// match lock.run(Lease::RENEWED, pay) {
            ///     Ok(paid) => assert_eq!(paid, 42),
            ///     Err(RunError::NotRun(error)) => println!("nothing is paid: {error}"),
            ///     Err(error) => println!("do not repeat the payment: {error}"),
            /// }
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            ///
            /// `NotRun` with the errors of [`Lock::lock`](crate::Lock::lock), `Failed` with those
            /// of `work`, `Unlock` with those of [`Lock::unlock`](crate::Lock::unlock).
            pub fn run<T, E>(
                &self,
                lease: Lease,
                work: impl FnOnce(&$guard) -> Result<T, E>,
            ) -> Result<T, RunError<E, T>> {
                run_under(self.acquire_with(lease), work, $guard::unlock)
            }

            /// Acquires the lock with `lease` if it becomes free within `wait`, runs `work` with
            /// the guard, and unlocks; `None` if another owner holds the lock then, and `work`
            /// has not run.
            ///
            /// # Errors
            ///
            /// Those of [`run`](Self::run), with those of
            /// [`Lock::try_lock`](crate::Lock::try_lock) for `NotRun`.
            pub fn try_run<T, E>(
                &self,
                wait: Duration,
                lease: Lease,
                work: impl FnOnce(&$guard) -> Result<T, E>,
            ) -> Result<Option<T>, RunError<E, T>> {
                let guard = self.try_acquire(wait, lease).transpose();
                let run = |guard| run_under(guard, work, $guard::unlock);
                guard.map(run).transpose()
            }
        }
    };
}

pub(super) use run_methods;
