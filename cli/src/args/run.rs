//! The arguments of `run` and `hold`.

use std::ffi::OsString;
use std::time::Duration;

use super::duration;
use crate::outcome::HELD;
use leasehold::admin::lock_kinds;

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
    // That kind has an option of its own, which also gives the token to the command.
    let mut known = lock_kinds().filter(|kind| *kind != "fenced");
    let named = known.find(|kind| *kind == text).map(Kind::Lock);
    let number = || text.strip_prefix("permits=")?.parse().ok();
    let permits = || number().filter(|permits| *permits > 0).map(Kind::Permits);
    named
        .or_else(permits)
        .ok_or_else(|| "write reentrant, fair, read, write or permits=N, or use --fenced".into())
}

/// Seconds, as flock(1) has them, or a duration.
fn wait(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => duration(text),
    }
}

/// Which lock, and how it is acquired.
#[derive(Debug, clap::Args)]
pub(crate) struct LockArgs {
    /// How long to wait for the lock, 5 is 5s; default: without limit
    #[arg(short, long, value_parser = wait, value_name = "DURATION", conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,

    /// Do not wait
    #[arg(short, long)]
    pub(crate) no_wait: bool,

    /// The exit status if the wait ends without the lock
    #[arg(short = 'E', long, default_value_t = HELD, value_name = "STATUS")]
    pub(crate) conflict_exit_code: u8,

    /// How long Redis keeps the lock if this machine dies
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    pub(crate) lease: Duration,

    /// Get a fencing token: run puts it into LEASEHOLD_TOKEN, hold into its line
    #[arg(long, conflicts_with = "kind")]
    pub(crate) fenced: bool,

    /// reentrant; fair, in the order in which clients began to wait; read or write, of a read-write
    /// lock; permits=N, at most N holders, where N counts only for a new semaphore
    #[arg(long, default_value = "reentrant", value_parser = kind, value_name = "KIND")]
    pub(crate) kind: Kind,

    /// The lock
    pub(crate) key: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) lock: LockArgs,

    /// End the command after this time, with status 124
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(crate) max_hold: Option<Duration>,

    /// The time between TERM and KILL; shorter if the lock is lost
    #[arg(long, default_value = "5s", value_parser = duration, value_name = "DURATION")]
    pub(crate) kill_after: Duration,

    /// Keep the lock for this time, also if the command ends sooner
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(crate) at_least: Option<Duration>,

    /// Leave LEASEHOLD_URL and LEASEHOLD_PASSWORD in the environment of the command, which starts
    /// leasehold, too
    #[arg(long)]
    pub(crate) keep_credentials: bool,

    /// What a shell runs, $SHELL or else /bin/sh, in place of COMMAND
    #[arg(short = 'c', long = "command", value_name = "TEXT")]
    #[arg(allow_hyphen_values = true, conflicts_with = "words")]
    text: Option<OsString>,

    /// The command and its arguments; no shell
    #[arg(last = true, required_unless_present = "text", value_name = "COMMAND")]
    words: Vec<OsString>,
}

impl RunArgs {
    /// The command and its arguments.
    pub(crate) fn command(&self) -> Vec<OsString> {
        let Some(text) = &self.text else {
            return self.words.clone();
        };
        let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
        let shell = shell.unwrap_or_else(|| "/bin/sh".into());
        vec![shell, "-c".into(), text.clone()]
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(crate) lock: LockArgs,
}
