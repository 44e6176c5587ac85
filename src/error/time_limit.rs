//! Which time limit ended a call.

use std::fmt;

/// The time limit that ended a call: what to change if the call shall wait longer. `Display` writes
/// the setting or the argument.
///
/// Within its limit, a call looks up the server, opens a connection, and repeats its request. Which
/// of these failed last is the cause of the error.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// use std::time::Duration;
/// use leasehold::{LockClient, TimeLimit};
///
/// let client = LockClient::builder("redis://127.0.0.1:1")
///     .command_timeout(Duration::from_millis(20))
///     .build()?;
/// let error = client.reentrant_lock("order:pay").try_acquire_now().unwrap_err();
/// assert_eq!(error.time_limit(), Some(TimeLimit::Command));
/// assert!(error.to_string().contains("limited by command_timeout"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeLimit {
    /// The time that the caller passed, such as the `wait` of
    /// [`try_lock`](crate::Lock::try_lock) or the `timeout` of
    /// [`shutdown`](crate::LockClient::shutdown).
    Wait,
    /// [`give_up_after`](crate::LockClientBuilder::give_up_after): a call that waits got no reply
    /// at all for this time.
    GiveUp,
    /// [`command_timeout`](crate::LockClientBuilder::command_timeout): the time for the reply to a
    /// call that does not wait. An unlock has three of them.
    Command,
    /// [`connect_timeout`](crate::LockClientBuilder::connect_timeout): the time of a credentials
    /// provider for the first credentials of a client.
    Connect,
    /// The time of [`min_replicas`](crate::LockClientBuilder::min_replicas).
    Replicas,
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wait => "the time that the caller passed",
            Self::GiveUp => "give_up_after",
            Self::Command => "command_timeout",
            Self::Connect => "connect_timeout",
            Self::Replicas => "min_replicas",
        })
    }
}
