//! What the threads of the workers do. A scenario has one of these programs.

mod many;

use std::time::Duration;

use clap::ValueEnum;
use leasehold::LockClient;
use leasehold_simulation_world::random;

use crate::args::Args;
use crate::checker::Bounds;
use crate::worker_thread::WorkerThread;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// That of the torture program: few clients with several threads, all faults
    Torture,
    /// Many clients of one thread, short holds, few faults
    Many,
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
        }
    }

    /// True if only the faults of [`MILD`](crate::faults::MILD) occur.
    pub fn is_mild(self) -> bool {
        self == Self::Many
    }

    /// What the checker allows.
    pub fn bounds(self, args: &Args) -> Bounds {
        let bounds = args.bounds();
        let later = match self {
            Self::Torture | Self::Many => Duration::ZERO,
        };
        Bounds {
            idle: bounds.idle + later,
            settled: bounds.settled + later,
            ..bounds
        }
    }

    /// Runs a thread of a worker until it is asked to stop.
    pub fn run(self, client: &LockClient, thread: WorkerThread<'_>) {
        let _ = client;
        match self {
            Self::Torture => thread.run(),
            Self::Many => many::run(thread),
        }
    }
}
