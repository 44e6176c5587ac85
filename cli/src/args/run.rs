//! The arguments of `run`.

use std::ffi::OsString;
use std::time::Duration;

use super::duration;

/// The kind of lock that `run` acquires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Reentrant,
    Fair,
    Read,
    Write,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// How long to wait for the lock; default: without limit
    #[arg(long, value_parser = duration, value_name = "DURATION", conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,

    /// Do not wait: status 75 if another client holds the lock
    #[arg(long)]
    pub(crate) no_wait: bool,

    /// How long Redis keeps the lock if this machine dies; renewed while the command runs
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    pub(crate) lease: Duration,

    /// End the command after this time
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(crate) max_hold: Option<Duration>,

    /// The time between TERM and KILL for a command that is ended; shorter if the lease ends
    /// sooner, and at most a sixth of the lease after the lock is lost
    #[arg(long, default_value = "5s", value_parser = duration, value_name = "DURATION")]
    pub(crate) kill_after: Duration,

    /// Keep the lock for this time after it was acquired, also if the command ends sooner
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(crate) at_least: Option<Duration>,

    /// Use a fenced lock: LEASEHOLD_TOKEN in the command's environment rises with each hold
    #[arg(long, conflicts_with = "kind")]
    pub(crate) fenced: bool,

    /// The kind of lock. A fair one is acquired in the order in which clients began to wait
    #[arg(long, value_enum, default_value_t = Kind::Reentrant, value_name = "KIND")]
    pub(crate) kind: Kind,

    /// The lock
    pub(crate) key: String,

    /// The command and its arguments; no shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
