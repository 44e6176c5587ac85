//! What a program can ask an error.

use super::{Error, TimeLimit};

impl Error {
    /// Returns true if the same call may succeed when it is repeated later, and nothing else is
    /// changed. Never true for an error of an unlock.
    ///
    /// | error | transient | because |
    /// |---|---|---|
    /// | [`HeldByAnother`](Self::HeldByAnother) | yes | the other owner releases the lock |
    /// | [`Unavailable`](Self::Unavailable) | yes | the server may reply again (1) |
    /// | [`TooFewReplicas`](Self::TooFewReplicas) | yes | the replicas may reply again |
    /// | [`NoThread`](Self::NoThread) | yes | other threads may end |
    /// | [`NotReleased`](Self::NotReleased) | no | the work was done, and the lock ends by itself |
    /// | [`Query`](Self::Query) | no | its commands may have been executed |
    /// | [`NotHeld`](Self::NotHeld) | no | the thread has to acquire the lock |
    /// | [`Lost`](Self::Lost) | no | the thread has to unlock it, and to repeat its work |
    /// | [`Redis`](Self::Redis) | no | the cause stays: memory, a permission, a password (2) |
    /// | [`WrongType`](Self::WrongType) | no | the value stays |
    /// | [`Config`](Self::Config) | no | the configuration has to change |
    /// | [`InvalidArgument`](Self::InvalidArgument) | no | the program has to change |
    /// | [`Upgrade`](Self::Upgrade) | no | the program has to change |
    /// | [`Interrupted`](Self::Interrupted) | no | an interrupt stays raised |
    /// | [`ShutDown`](Self::ShutDown), [`Forked`](Self::Forked) | no | it needs another client |
    ///
    /// 1. The first call may have been executed. Repeating an acquire is safe. Before a call that
    ///    changes a number is repeated, read its documentation: the number may change twice.
    /// 2. Errors of Redis that pass, such as `LOADING` or `READONLY`, are repeated by the call
    ///    itself, and are [`Unavailable`](Self::Unavailable) after its time limit.
    ///
    /// A call repeats its request within its time limit already. So wait before the next call, and
    /// limit the number of calls.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// use std::time::Duration;
    /// use leasehold::{Error, LockClient};
    ///
    /// let client = LockClient::builder("redis://127.0.0.1:1")
    ///     .command_timeout(Duration::from_millis(20))
    ///     .build()?;
    /// let lock = client.reentrant_lock("order:pay");
    /// let mut attempts = 0;
    /// let result = loop {
    ///     attempts += 1;
    ///     match lock.try_acquire_now() {
    ///         Err(error) if error.is_transient() && attempts < 3 => continue,
    ///         result => break result,
    ///     }
    /// };
    /// assert_eq!(attempts, 3);
    /// assert!(matches!(result, Err(Error::Unavailable { .. })));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_transient(&self) -> bool {
        // Without a wildcard, so that a new error has to be decided here.
        match self {
            Self::HeldByAnother { .. }
            | Self::Unavailable { .. }
            | Self::TooFewReplicas { .. }
            | Self::NoThread { .. } => true,
            Self::NotHeld { .. }
            | Self::NotReleased { .. }
            | Self::Query { .. }
            | Self::Lost { .. }
            | Self::Forked { .. }
            | Self::ShutDown { .. }
            | Self::Interrupted { .. }
            | Self::Upgrade { .. }
            | Self::WrongType { .. }
            | Self::Config { .. }
            | Self::InvalidArgument { .. }
            | Self::Redis { .. } => false,
        }
    }

    /// Returns the name of the lock, the semaphore or the latch that the error concerns. `None` if
    /// it concerns none, or several of them, as the errors of
    /// [`shutdown`](crate::LockClient::shutdown).
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// use std::time::Duration;
    /// use leasehold::{Lease, LockClient};
    ///
    /// let client = LockClient::connect("redis://127.0.0.1:6379")?;
    /// let lock = client.reentrant_lock("order:pay");
    /// let error = lock.acquire_with(Lease::fixed(Duration::ZERO)).unwrap_err();
    /// assert_eq!(error.lock_name(), Some("order:pay"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lock_name(&self) -> Option<&str> {
        let lock = match self {
            Self::NotHeld { lock, .. }
            | Self::Lost { lock, .. }
            | Self::HeldByAnother { lock, .. }
            | Self::Unavailable { lock, .. }
            | Self::NotReleased { lock, .. }
            | Self::Query { lock, .. }
            | Self::TooFewReplicas { lock, .. }
            | Self::Forked { lock }
            | Self::ShutDown { lock }
            | Self::Interrupted { lock }
            | Self::Upgrade { lock }
            | Self::WrongType { lock, .. }
            | Self::Config { lock, .. }
            | Self::InvalidArgument { lock, .. }
            | Self::Redis { lock, .. } => lock,
            Self::NoThread { .. } => return None,
        };
        (!lock.is_empty()).then_some(lock)
    }

    /// Returns the time limit that ended the call. `None` if the call ended for another reason.
    ///
    /// [`TimeLimit`] has an example.
    #[must_use]
    pub fn time_limit(&self) -> Option<TimeLimit> {
        match self {
            Self::HeldByAnother { .. } => Some(TimeLimit::Wait),
            Self::TooFewReplicas { .. } => Some(TimeLimit::Replicas),
            Self::Unavailable { limit, .. } | Self::NotReleased { limit, .. } => *limit,
            _ => None,
        }
    }
}
