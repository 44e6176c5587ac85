//! What can be asked for, and the times that follow from it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::checker::Bounds;

/// Many processes and threads take a few locks while everything that can go wrong does: replies are
/// lost, connections cut, processes stopped and killed, keys deleted, the server hangs. A checker
/// then reads what everybody wrote down. Exit status 1 if the locks broke a promise.
///
/// It has a Redis server of its own. The seed decides which faults come, and when; what they meet
/// is up to the scheduler, so that the same seed is a similar run and not the same one.
///
/// A longer run: torture --seconds 3600 --log some/directory
#[derive(Clone, Debug, Parser)]
pub struct Args {
    /// How many processes take the locks
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub processes: u32,
    /// How many threads do so in each process
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// How many locks there are
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub locks: u32,
    /// How long there are faults, in seconds
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// What decides the faults [default: a new one, which is printed]
    #[arg(long)]
    pub seed: Option<u64>,
    /// The lease of locks that are renewed, in milliseconds
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub lease: u64,
    /// How late a call may be seen to return, in milliseconds
    #[arg(long, default_value_t = 500)]
    pub slip: u64,
    /// Where the log goes and stays [default: a directory that is kept only if something is found]
    #[arg(long)]
    pub log: Option<PathBuf>,
    /// Only read the log that is there
    #[arg(long, requires = "log")]
    pub check_only: bool,
    /// Be the worker of this number
    #[arg(long, hide = true, requires = "url")]
    pub worker: Option<u32>,
    /// Where the worker finds its server
    #[arg(long, hide = true)]
    pub url: Option<String>,
}

/// Between tries without a subscription, as the library documents it.
const LONGEST_POLL: Duration = Duration::from_secs(1);

impl Args {
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease)
    }

    /// The longest lease that anybody asks for.
    pub fn longest_lease(&self) -> Duration {
        self.lease() * 3 / 2
    }

    pub fn command_timeout(&self) -> Duration {
        self.lease() / 4
    }

    pub fn connect_timeout(&self) -> Duration {
        self.lease() / 4
    }

    pub fn pool_timeout(&self) -> Duration {
        self.lease() / 2
    }

    pub fn bounds(&self) -> Bounds {
        let slip = Duration::from_millis(self.slip);
        Bounds {
            longest_lease: self.longest_lease(),
            // A dead holder's lease, the poll that follows, and the time of that try.
            idle: self.longest_lease() + LONGEST_POLL + self.command_timeout() * 2 + slip,
            slip,
        }
    }

    pub fn key(lock: u32) -> String {
        format!("torture:{lock}")
    }

    /// Where the last token of a lock is.
    pub fn token_key(lock: u32) -> String {
        format!("redisson_lock_token:{{torture:{lock}}}")
    }
}
