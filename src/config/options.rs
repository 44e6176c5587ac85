//! The settings that are a value, and their bounds.

use std::fmt;
use std::time::Duration;

use super::LockClientBuilder;
use crate::error::{Error, Result};
use crate::lease::{check_renewed, left_at_renewal};
use crate::observe::MetricLabel;

/// The bounds of all timeouts.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(3600);

/// The default of `give_up_after`, in command timeouts.
const UNANSWERED: u32 = 10;
const LONGEST_UNANSWERED: Duration = Duration::from_secs(24 * 3600);

/// Settings that are a value within bounds. They contain no secret, and are read in many modules.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) watchdog_lease: Duration,
    pub(crate) linger: Duration,
    /// Zero, or once checked the longest time, if locks are not confirmed.
    pub(crate) confirm_every: Duration,
    pub(crate) connections: u32,
    pub(crate) replica_connections: u32,
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
    /// `None`: the default, which depends on the command timeout.
    pub(super) give_up_after: Option<Duration>,
    pub(crate) namespace: String,
    /// How many replicas must confirm a lock, and how long each attempt waits for them.
    pub(crate) min_replicas: Option<(u32, Duration)>,
    pub(crate) name_connections: bool,
    pub(crate) metric_label: MetricLabel,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            watchdog_lease: Duration::from_secs(30),
            linger: Duration::ZERO,
            confirm_every: Duration::from_secs(1),
            connections: 8,
            replica_connections: 10,
            connect_timeout: Duration::from_secs(2),
            command_timeout: Duration::from_secs(1),
            give_up_after: None,
            namespace: String::new(),
            min_replicas: None,
            name_connections: true,
            metric_label: MetricLabel::default(),
        }
    }
}

impl Options {
    /// For how long a call that waits goes on without any reply.
    pub(crate) fn give_up_after(&self) -> Duration {
        self.give_up_after
            .unwrap_or(self.command_timeout.saturating_mul(UNANSWERED))
    }

    /// Checks all bounds.
    pub(super) fn check(&self) -> Result<()> {
        let timeout = |field, value| within(field, value, SHORTEST, LONGEST);
        timeout("connect_timeout", self.connect_timeout)?;
        timeout("command_timeout", self.command_timeout)?;
        if let Some(time) = self.give_up_after {
            let shortest = self.command_timeout;
            within("give_up_after", time, shortest, LONGEST_UNANSWERED)?;
        }
        let lease = self.watchdog_lease;
        check_renewed(lease)
            .map_err(|rule| Error::config("watchdog_lease", format_args!("{lease:?}"), rule))?;
        let longest = left_at_renewal(self.watchdog_lease);
        within("linger", self.linger, Duration::ZERO, longest)?;
        let every = self.confirm_every;
        if !every.is_zero() {
            within("confirm_every", every, SHORTEST * 100, LONGEST)?;
        }
        if let Some((replicas, time)) = self.min_replicas {
            timeout("min_replicas' timeout", time)?;
            within("min_replicas", replicas, 1, 100)?;
        }
        within("connections", self.connections, 1, 1000)?;
        within("replica_connections", self.replica_connections, 1, 1000)?;
        if self.namespace.len() <= 512 {
            return Ok(());
        }
        let value = format!("{} bytes long", self.namespace.len());
        let rule = "must have at most 512 bytes";
        Err(Error::config("namespace", value, rule))
    }
}

/// Fails if a setting is outside its bounds.
fn within<T: PartialOrd + fmt::Debug>(
    field: &'static str,
    value: T,
    lowest: T,
    highest: T,
) -> Result<()> {
    if value >= lowest && value <= highest {
        return Ok(());
    }
    let rule = format!("must be at least {lowest:?} and at most {highest:?}");
    Err(Error::config(field, format_args!("{value:?}"), rule))
}

/// Shows the options only, because the rest has secrets.
impl fmt::Debug for LockClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("LockClientBuilder");
        shown.field(&self.options).finish()
    }
}
