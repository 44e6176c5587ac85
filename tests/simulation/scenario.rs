//! What one world has in it, drawn from a seed.

use std::fmt;

use clap::Parser;
use leasehold_simulation_world::tasks::{self, Order};
use leasehold_simulation_world::{begin, random};

use crate::args::Args;
use crate::kind::Kind;

/// How late a call may return, in milliseconds: the messages of the network take their time.
const SLIP: u64 = 20;

#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub args: Args,
    /// Once in how many calls a thread that locks a mutex is preempted; 0: never.
    pub preempts: u64,
    pub order: Order,
    /// The faults that occur, of [`FAULTS`](crate::faults::FAULTS), and how often each.
    pub faults: Vec<usize>,
    /// How many storms there are.
    pub storms: u32,
}

/// What a smaller run has instead of what the seed says.
#[derive(Clone, Debug, Default, Parser)]
pub struct Limits {
    /// The most processes
    #[arg(long)]
    pub processes: Option<u32>,
    /// The most threads in each process
    #[arg(long)]
    pub threads: Option<u32>,
    /// The most locks
    #[arg(long)]
    pub locks: Option<u32>,
    /// The most storms
    #[arg(long)]
    pub storms: Option<u32>,
    /// The kind of the locks
    #[arg(long)]
    pub kind: Option<Kind>,
    /// Leaves out these faults, by their numbers
    #[arg(long, value_delimiter = ',')]
    pub without: Vec<usize>,
}

impl Limits {
    /// The arguments of the command line.
    pub fn arguments(&self) -> Vec<String> {
        let numbers = [
            ("processes", self.processes),
            ("threads", self.threads),
            ("locks", self.locks),
            ("storms", self.storms),
        ];
        let numbers = numbers
            .into_iter()
            .filter_map(|(name, number)| number.map(|number| format!("--{name}={number}")));
        let kind = self.kind.map(|kind| format!("--kind={kind}"));
        let without: Vec<String> = self.without.iter().map(usize::to_string).collect();
        let without = (!without.is_empty()).then(|| format!("--without={}", without.join(",")));
        numbers.chain(kind).chain(without).collect()
    }

    /// As they are appended to a command.
    pub fn text(&self) -> String {
        self.arguments()
            .iter()
            .map(|one| format!(" {one}"))
            .collect()
    }
}

impl Scenario {
    /// The scenario with this seed. The world begins with it.
    pub fn of(seed: u64, limits: &Limits, faults: usize) -> Self {
        begin(seed);
        let kind = match random::index(10) {
            0..2 => None,
            2 => Some(Kind::Reentrant),
            3 => Some(Kind::Fenced),
            4 | 5 => Some(Kind::Fair),
            6 | 7 => Some(Kind::ReadWrite),
            8 => Some(Kind::Permits(of_few(3))),
            _ => Some(Kind::Semaphore(of_few(6))),
        };
        // Many clients wait for one lock, or few threads do much.
        let is_crowd = random::one_in(2);
        let (processes, threads, locks) = match is_crowd {
            true => (2 + of_few(10), 1, 1),
            false => (1 + of_few(4), of_few(4), of_few(3)),
        };
        let mut args = Args::parse_from(["simulation"]);
        args.kind = limits.kind.or(kind);
        args.processes = processes.min(limits.processes.unwrap_or(processes));
        args.threads = threads.min(limits.threads.unwrap_or(threads));
        args.locks = locks.min(limits.locks.unwrap_or(locks));
        args.seed = Some(random::seed());
        args.slip = SLIP;
        args.rushes = !is_crowd && random::one_in(2);
        let preempts = [0, 3, 16, 64][random::index(4)];
        let order = [Order::Random, Order::Random, Order::Priorities][random::index(3)];
        tasks::set_order(preempts, order);
        let most = 1 + random::index(2 * faults);
        let faults = (0..most).map(|_| random::index(faults));
        let faults = faults.filter(|fault| !limits.without.contains(fault));
        let storms = of_few(4);
        Self {
            seed,
            args,
            preempts,
            order,
            faults: faults.collect(),
            storms: storms.min(limits.storms.unwrap_or(storms)),
        }
    }
}

/// From 1 to `most`.
fn of_few(most: u64) -> u32 {
    u32::try_from(random::between(1..=most)).expect("it is small")
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Args {
            processes,
            threads,
            locks,
            kind,
            ..
        } = self.args;
        let kind = kind.map_or("plain and fenced".into(), |kind| kind.to_string());
        write!(
            f,
            "seed {}: {processes} x {threads} threads, {locks} locks, {kind}, preempts {}, {:?}, \
             {} storms, faults {:?}",
            self.seed, self.preempts, self.order, self.storms, self.faults,
        )
    }
}
