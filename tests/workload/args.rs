//! The command line, and the durations derived from it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use leasehold::LockClientBuilder;

use crate::checker::Bounds;
use crate::kind::Kind;

/// Tests the locks under random faults.
///
/// Several processes with several threads take a few locks. Meanwhile replies are lost, connections
/// are cut, processes are paused and killed, keys are deleted, rights are taken away, the password
/// is changed, and the server hangs, is full, or loses its data. Afterwards a checker reads the
/// event logs of all processes.
/// Exit status 1 if a lock broke a promise.
///
/// The program starts its own redis-server. The seed decides which faults occur and when. The
/// scheduler decides which calls they hit, so two runs with one seed are similar, not identical.
///
/// A longer run: torture --seconds 3600 --log some/directory
#[derive(Clone, Debug, Parser)]
pub struct Args {
    /// Number of worker processes
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub processes: u32,
    /// Number of threads in each process
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// Number of locks
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub locks: u32,
    /// Kind of the locks: reentrant, fenced, fair, or read-write [default: the first lock is
    /// reentrant, the others are fenced]
    #[arg(long)]
    pub kind: Option<Kind>,
    /// How long to inject faults, in seconds
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// Seed of the faults [default: random, printed]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Lease of the renewed locks, in milliseconds
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub lease: u64,
    /// How late a call may return on a busy machine, in milliseconds
    #[arg(long, default_value_t = 500)]
    pub slip: u64,
    /// Threads join rushes
    #[arg(skip = true)]
    pub rushes: bool,
    /// The threads act in rounds, and also those of Redisson
    #[arg(skip)]
    pub acts_in_rounds: bool,
    /// The most connections of a worker to a server, if not the default of the library
    #[arg(skip)]
    pub connections: Option<u32>,
    /// Directory for the event logs [default: temporary, kept only after a violation]
    #[arg(long)]
    pub log: Option<PathBuf>,
    /// Only check the existing logs in --log
    #[arg(long, requires = "log")]
    pub check_only: bool,
    /// Run as the worker process with this number
    #[arg(long, hide = true, requires = "url")]
    pub worker: Option<u32>,
    /// The worker lingers
    #[arg(long, hide = true)]
    pub lingers: bool,
    /// The worker wants more permits than there are
    #[arg(skip)]
    pub wants_too_many: bool,
    /// URL of the worker's server
    #[arg(long, hide = true, requires = "user", requires = "password_file")]
    pub url: Option<String>,
    /// User of the worker
    #[arg(long, hide = true)]
    pub user: Option<String>,
    /// File with the password of the worker, which changes
    #[arg(long, hide = true)]
    pub password_file: Option<PathBuf>,
}

/// How long the next holder of a free lock takes to hear of it and to acquire it, with many others.
const WAKE_UP: Duration = Duration::from_millis(300);

/// How long clients with few before them do not notice that the line is lost, as documented.
const LINE_NOTICED: Duration = Duration::from_secs(3);

/// For how long log-ins are refused after the first refusal: the client asks the program for the
/// password about once a second, as documented, and calls under way return a little later.
pub const LOG_IN: Duration = Duration::from_secs(2);

/// The number of leases from the begin of a rush to the begin of the next.
const RUSH_INTERVAL: u64 = 6;

/// A time in which all threads acquire one lock again and again.
pub struct Rush {
    pub lock: u32,
    /// Only the first thread of each process does so.
    pub is_alone: bool,
    /// This worker has left the rush, and does not use the lock until the rush is over. Workers
    /// that linger leave a rush before the others, which then wait for the grants that those
    /// workers keep.
    pub has_left: bool,
}

impl Args {
    /// The kind of this lock.
    pub fn kind_of(&self, lock: u32) -> Kind {
        self.kind.unwrap_or(Kind::by_default(lock))
    }

    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease)
    }

    /// The longest lease that a worker requests.
    pub fn longest_lease(&self) -> Duration {
        self.lease() * 3 / 2
    }

    /// How long every second worker keeps a lock that none of its threads uses.
    pub fn linger(&self) -> Duration {
        self.lease() / 10
    }

    /// The time from one rush to the next.
    pub fn rush_interval(&self) -> Duration {
        Duration::from_millis(self.lease * RUSH_INTERVAL)
    }

    /// The rush at this time, if there is one. All processes see the same clock.
    pub fn rush(&self, now: u64) -> Option<Rush> {
        let lease = self.lease * 1_000_000;
        let interval = lease * RUSH_INTERVAL;
        let (number, at) = (now / interval, now % interval);
        Some(Rush {
            lock: u32::try_from(number % u64::from(self.locks)).ok()?,
            is_alone: number / u64::from(self.locks) % 3 == 2,
            has_left: self.lingers && at >= lease * 3,
        })
        .filter(|_| self.rushes && at < lease * 4)
    }

    /// The settings of a worker's client.
    pub fn set(&self, builder: LockClientBuilder) -> LockClientBuilder {
        let builder = builder
            .watchdog_lease(self.lease())
            .command_timeout(self.command_timeout())
            .connect_timeout(self.connect_timeout());
        let builder = match self.connections {
            Some(connections) => builder.connections(connections),
            None => builder,
        };
        match self.lingers {
            true => builder.linger(self.linger()),
            false => builder,
        }
    }

    pub fn command_timeout(&self) -> Duration {
        self.lease() / 4
    }

    pub fn connect_timeout(&self) -> Duration {
        self.lease() / 4
    }

    pub fn bounds(&self) -> Bounds {
        let slip = Duration::from_millis(self.slip);
        let kind = self.kind_of(0);
        // The lease of a dead holder, the place of a dead client, the pause before the next
        // attempt, and that attempt.
        let idle = self.longest_lease()
            + kind.place()
            + kind.keeps_out()
            + kind.longest_poll()
            + self.command_timeout() * 2
            + slip;
        Bounds {
            longest_lease: self.longest_lease(),
            idle,
            settled: self.linger() + WAKE_UP + slip,
            keeps_out: kind.keeps_out(),
            line_noticed: LINE_NOTICED + self.command_timeout() + slip,
            log_in: LOG_IN + slip,
            permits: kind.permits(),
            reuse: kind.slice() + self.linger(),
            answered: self.command_timeout() / 2 + slip,
            delivered: idle + self.command_timeout() + slip,
            slip,
        }
    }

    pub fn key(lock: u32) -> String {
        format!("torture:{lock}")
    }

    /// The key of the clients that wait for a lock.
    pub fn line_key(lock: u32) -> String {
        format!("leasehold_line:{{torture:{lock}}}")
    }

    /// The key of the queries that Redis has executed under a lock, in their order.
    pub fn queries_key(lock: u32) -> String {
        format!("{{torture:{lock}}}:queries")
    }

    /// The key of a lock's last fencing token.
    pub fn token_key(lock: u32) -> String {
        format!("redisson_lock_token:{{torture:{lock}}}")
    }
}
