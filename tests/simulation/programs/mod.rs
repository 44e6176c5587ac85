//! What the threads of the workers do. A scenario has one of these programs.

mod conditions;
pub mod ends;
mod events;
mod few;
mod held;
mod latches;
mod majority;
mod many;
mod names;
pub mod redisson;

use std::time::Duration;

use clap::ValueEnum;
use leasehold::LockClient;
use leasehold_simulation_world::random;

use crate::args::Args;
use crate::checker::Bounds;
use crate::deployment::Layout;
use crate::faults::Fault;
use crate::kind::Kind;
use crate::worker_thread::WorkerThread;

/// After how long a client far from the head of a line notices that it has lost its place, as
/// documented.
const LATEST_LOOK: Duration = Duration::from_secs(28);

/// How long a dead process keeps its place among those that wait for a condition, and its
/// notification, as documented for leases of less than a second.
const DEAD_PLACE: Duration = Duration::from_millis(1334);

/// After how long a thread that waits for a latch notices that it missed a message, as documented.
const LATCH_ASKS: Duration = Duration::from_secs(30);

/// After how long the first client of a line notices that a lock is free that no client of the
/// library has released, as documented. A lock that is kept after its hold ends without a release.
const NO_CALL: Duration = Duration::from_secs(2);

/// For how long a client skips a server that did not reply, as documented.
const SKIPPED: Duration = Duration::from_secs(3);

/// How long a name stays reserved for a client that waits for several, until the others are free,
/// as documented.
const RESERVED: Duration = Duration::from_millis(500);

/// For how long a thread that waits for several names is not overtaken by threads of its client, as
/// documented.
const NOT_OVERTAKEN: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// What the torture program does: few clients with several threads, all faults
    Torture,
    /// Many clients of one thread, short holds, few faults
    Many,
    /// Few clients that do much at the same moments, and nothing for long times
    Few,
    /// Threads that want several names together, beside threads that want one
    Names,
    /// Bounded buffers with conditions
    Conditions,
    /// Clients of Redisson beside those of the library
    Redisson,
    /// Redlocks
    Majority,
    /// Latches
    Latches,
    /// Locks that are broken or kept, clients that are shut down
    Ends,
}

impl Program {
    /// One of them.
    pub fn any() -> Self {
        let all = Self::value_variants();
        match random::index(2) {
            0 => Self::Torture,
            _ => all[random::index(all.len())],
        }
    }

    /// Changes what the scenario has for all programs.
    pub fn adapt(self, args: &mut Args) {
        match self {
            Self::Torture => {}
            Self::Many => many::adapt(args),
            Self::Few => few::adapt(args),
            Self::Names => names::adapt(args),
            Self::Conditions => conditions::adapt(args),
            Self::Redisson => redisson::adapt(args),
            Self::Majority => majority::adapt(args),
            Self::Latches => latches::adapt(args),
            Self::Ends => ends::adapt(args),
        }
    }

    /// True if requests meet no faults.
    pub fn is_mild(self, args: &Args) -> bool {
        match self {
            // A request without a reply may break a lock later.
            Self::Many | Self::Few | Self::Ends => true,
            // Permits of a thread of Redisson that dies are lost, and its place in the queue of a
            // fair lock lasts for minutes. A lost reply has the same effects.
            Self::Redisson => matches!(args.kind_of(0), Kind::Fair | Kind::Semaphore(_)),
            _ => false,
        }
    }

    /// True if its threads wait in lines or queues only, so a client need not subscribe.
    pub fn waits_in_lines(self) -> bool {
        matches!(self, Self::Torture | Self::Many | Self::Few | Self::Names)
    }

    /// The faults that can occur.
    pub fn faults(self, args: &Args) -> Vec<Fault> {
        let all = Fault::value_variants().iter().copied();
        match self {
            Self::Many | Self::Few => Fault::MILD.to_vec(),
            // A request of a process that dies may break a lock later, too.
            Self::Ends => Fault::MILD[1..].to_vec(),
            Self::Redisson if self.is_mild(args) => Fault::MILD[1..].to_vec(),
            Self::Majority => all.filter(|fault| !fault.loses_keys()).collect(),
            _ => all.collect(),
        }
    }

    /// How Redis is deployed for it.
    pub fn layout(self) -> Layout {
        match self {
            Self::Majority => Layout::Independent([3, 5][random::index(2)]),
            Self::Torture if random::one_in(3) => Layout::any(),
            _ => Layout::One,
        }
    }

    /// True if it can run on such a deployment, in a time of some seconds.
    pub fn suits(self, layout: Layout) -> bool {
        match self {
            Self::Majority => matches!(layout, Layout::Independent(_)),
            // Its clients know one server.
            Self::Redisson => layout == Layout::One,
            // It leaves thousands of keys, and replicas get a copy of all with each write.
            Self::Latches => matches!(layout, Layout::One | Layout::Independent(_)),
            _ => true,
        }
    }

    /// What the checker allows.
    pub fn bounds(self, args: &Args) -> Bounds {
        let bounds = args.bounds();
        match self {
            // Clients of a fair lock ask that often in any case.
            Self::Torture | Self::Few if args.kind == Some(Kind::Fair) => bounds,
            // No client calls the next one if Redis executes a late request of one that has given
            // it up, and those that wait have asked before.
            Self::Torture | Self::Few => Bounds {
                idle: bounds.idle + NO_CALL,
                ..bounds
            },
            Self::Majority => Bounds {
                idle: bounds.idle + SKIPPED,
                ..bounds
            },
            Self::Redisson => Bounds {
                idle: bounds.idle + NO_CALL,
                // A client of Redisson that leaves the queue of a fair lock calls no other.
                settled: match args.kind_of(0) {
                    Kind::Fair => bounds.settled + NO_CALL,
                    _ => bounds.settled,
                },
                ..bounds
            },
            Self::Ends => Bounds {
                settled: bounds.settled + ends::KEPT + NO_CALL,
                ..bounds
            },
            Self::Latches => Bounds {
                idle: bounds.idle + LATCH_ASKS,
                ..bounds
            },
            Self::Many => Bounds {
                idle: bounds.idle + LATEST_LOOK,
                ..bounds
            },
            Self::Conditions => Bounds {
                idle: bounds.idle + DEAD_PLACE,
                ..bounds
            },
            Self::Names => Bounds {
                idle: bounds.idle + RESERVED + NOT_OVERTAKEN,
                settled: bounds.settled + RESERVED + NOT_OVERTAKEN,
                ..bounds
            },
        }
    }

    /// Runs a thread of a worker, which has a client for each server, until it is asked to stop.
    pub fn run(self, clients: &[LockClient], thread: WorkerThread<'static>) {
        let client = &clients[0];
        match self {
            Self::Redisson if thread.args.acts_in_rounds => few::run(thread),
            Self::Torture | Self::Redisson => thread.run(),
            Self::Majority => majority::run(clients, thread),
            Self::Latches => latches::run(client, thread),
            Self::Ends => ends::run(client, thread),
            Self::Many => many::run(thread),
            Self::Few => few::run(thread),
            Self::Names => names::run(client, thread),
            Self::Conditions => conditions::run(client, thread),
        }
    }
}
