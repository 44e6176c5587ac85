//! The arguments of `run` and `hold`.

use std::ffi::OsString;
use std::time::Duration;

use super::duration;
use crate::outcome::HELD;

/// The kind of lock that is acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A lock of the kind with this name.
    Lock(&'static str),
    /// A permit of a leased semaphore, which gets this number of permits if there is none yet.
    Permits(u32),
}

impl Kind {
    pub(crate) const REENTRANT: Self = Self::Lock("reentrant");
}

fn kind(text: &str) -> Result<Kind, String> {
    let known = ["reentrant", "fair", "read", "write"];
    let named = known.into_iter().find(|kind| *kind == text).map(Kind::Lock);
    let number = || text.strip_prefix("permits=")?.parse().ok();
    let permits = || number().filter(|permits| *permits > 0).map(Kind::Permits);
    named
        .or_else(permits)
        .ok_or_else(|| "write reentrant, fair, read, write or permits=N".into())
}

/// Which lock, and how it is acquired.
#[derive(Debug, clap::Args)]
pub(crate) struct LockArgs {
    /// How long to wait for the lock; default: without limit
    #[arg(long, value_parser = duration, value_name = "DURATION", conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,

    /// Do not wait; if another client holds the lock, end with the status of -E
    #[arg(long)]
    pub(crate) no_wait: bool,

    /// The exit status if another client holds the lock until the end of the wait, 0 to 255
    #[arg(short = 'E', long, default_value_t = HELD, value_name = "STATUS")]
    pub(crate) conflict_exit_code: u8,

    /// How long Redis keeps the lock if this machine dies; renewed while it is held
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    pub(crate) lease: Duration,

    /// Use a fenced lock, each hold of which has a greater token: LEASEHOLD_TOKEN in the
    /// environment of run's command, in the line of hold
    #[arg(long, conflicts_with = "kind")]
    pub(crate) fenced: bool,

    /// reentrant; fair: in the order in which clients began to wait; read or write: one of the two
    /// locks of a read-write lock; permits=N: at most N holders at a time, where N counts only if the semaphore
    /// does not exist yet (leasehold permits shows and sets it)
    #[arg(long, default_value = "reentrant", value_parser = kind, value_name = "KIND")]
    pub(crate) kind: Kind,

    /// The lock
    pub(crate) key: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) lock: LockArgs,

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

    /// The command and its arguments; no shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(crate) lock: LockArgs,
}
