//! The settings that a builder has checked.

use std::fmt;
use std::time::Duration;

use crate::base::test_clock::ClientClock;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::transport::node::Credentials;
use crate::transport::tls::Tls;

/// Settings that [`LockClientBuilder::validate`](super::LockClientBuilder::validate) has checked.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) deployment: Deployment,
    /// For the servers that have the locks.
    pub(crate) credentials: Credentials,
    /// `None` for connections without TLS.
    pub(crate) tls: Option<Tls>,
    pub(crate) watchdog_lease: Duration,
    pub(crate) linger: Duration,
    /// The longest time if locks are not confirmed.
    pub(crate) confirm_every: Duration,
    pub(crate) connections: usize,
    pub(crate) pool_size: u32,
    pub(crate) pool_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) namespace: String,
    /// How many replicas must confirm a lock, and how long each attempt waits for them.
    pub(crate) min_replicas: Option<(u32, Duration)>,
    pub(crate) name_connections: bool,
    pub(crate) clock: ClientClock,
}

/// Fails if a setting is outside its bounds.
pub(super) fn within<T: PartialOrd + fmt::Debug>(
    field: &'static str,
    value: T,
    lowest: T,
    highest: T,
) -> Result<()> {
    if value >= lowest && value <= highest {
        return Ok(());
    }
    Err(Error::Config {
        field,
        value: format!("{value:?}"),
        rule: format!("must be at least {lowest:?} and at most {highest:?}"),
    })
}
