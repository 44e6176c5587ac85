//! What one world has in it, drawn from a seed.

use std::fmt;

use clap::{Parser, ValueEnum};
use leasehold_simulation_world::tasks::{self, Order};
use leasehold_simulation_world::{begin, random};

use crate::args::Args;
use crate::checker::Bounds;
use crate::deployment::Layout;
use crate::faults::Fault;
use crate::kind::Kind;
use crate::programs::Program;

/// How late a call may return, in milliseconds: the messages of the network take their time.
const SLIP: u64 = 20;

#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub program: Program,
    pub args: Args,
    pub layout: Layout,
    /// Once in how many calls a thread that locks a mutex is preempted; 0: never.
    pub preempts: u64,
    pub order: Order,
    /// The faults that occur. Those that are in it several times occur more often.
    pub faults: Vec<Fault>,
    /// The first worker may not subscribe.
    pub is_deaf: bool,
    /// How many storms there are.
    pub storms: u32,
    /// After how many steps of the world the last storm ends.
    pub steps: u64,
    /// The clocks of the processes lose this many nanoseconds in each second.
    pub slow: i64,
}

/// The most steps of the world before the last storm ends: a few seconds of real time.
const MOST_STEPS: u64 = 1_000_000;

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
    /// Ends the last storm after this many steps
    #[arg(long)]
    pub steps: Option<u64>,
    /// Another run of the same scenario
    #[arg(long)]
    pub variant: Option<u64>,
    /// The program of the workers
    #[arg(long)]
    pub program: Option<Program>,
    /// The kind of the locks
    #[arg(long)]
    pub kind: Option<Kind>,
    /// The deployment: one, sentinel=REPLICAS, min-replicas=REPLICAS, cluster or
    /// independent=SERVERS
    #[arg(long)]
    pub deployment: Option<Layout>,
    /// Leaves out these faults
    #[arg(long, value_delimiter = ',')]
    pub without: Vec<Fault>,
    /// Slows the clocks of the processes by this many percent. From 2 on, leases are too long
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=99))]
    pub slow: Option<u64>,
}

impl Limits {
    /// The arguments of the command line.
    pub fn arguments(&self) -> Vec<String> {
        let numbers = [
            ("processes", self.processes.map(u64::from)),
            ("threads", self.threads.map(u64::from)),
            ("locks", self.locks.map(u64::from)),
            ("storms", self.storms.map(u64::from)),
            ("steps", self.steps),
            ("variant", self.variant),
            ("slow", self.slow),
        ];
        let numbers = numbers
            .into_iter()
            .filter_map(|(name, number)| number.map(|number| format!("--{name}={number}")));
        let kind = self.kind.map(|kind| format!("--kind={kind}"));
        let layout = self
            .deployment
            .map(|layout| format!("--deployment={layout}"));
        let without: Vec<String> = self.without.iter().map(name_of).collect();
        let without = (!without.is_empty()).then(|| format!("--without={}", without.join(",")));
        let program = self.program.iter();
        let program = program.map(|one| format!("--program={}", name_of(one)));
        numbers
            .chain(program)
            .chain(kind)
            .chain(layout)
            .chain(without)
            .collect()
    }

    /// The command that repeats the scenario with this seed.
    pub fn command(&self, seed: u64) -> String {
        let arguments = self.arguments();
        let arguments: String = arguments.iter().map(|one| format!(" {one}")).collect();
        format!("scripts/simulate --scenario {seed} --log target/{seed}.log{arguments}")
    }
}

impl Scenario {
    /// The scenario with this seed. The world begins with it.
    pub fn of(seed: u64, limits: &Limits) -> Self {
        begin(seed);
        let any = Program::any();
        let is_suitable = limits.deployment.is_none_or(|layout| any.suits(layout));
        let any = if is_suitable { any } else { Program::Torture };
        let program = limits.program.unwrap_or(any);
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
        (args.processes, args.threads, args.locks) = (processes, threads, locks);
        program.adapt(&mut args);
        let least = |number: &mut u32, limit: Option<u32>| {
            *number = (*number).min(limit.unwrap_or(*number));
        };
        least(&mut args.processes, limits.processes);
        least(&mut args.threads, limits.threads);
        least(&mut args.locks, limits.locks);
        args.seed = Some(random::seed());
        args.slip = SLIP;
        args.rushes = !is_crowd && random::one_in(2);
        let preempts = [0, 3, 16, 64][random::index(4)];
        let order = [Order::Random, Order::Random, Order::Priorities][random::index(3)];
        tasks::set_order(preempts, order);
        let any = program.layout();
        let layout = limits.deployment.unwrap_or(any);
        let all = program.faults(&args);
        let most = 1 + random::index(2 * all.len());
        let faults = (0..most).map(|_| all[random::index(all.len())]);
        let of_several: &[Fault] = match layout {
            Layout::One | Layout::Independent(_) => &[],
            Layout::Sentinel(_) | Layout::MinReplicas(_) => &[Fault::FailOver],
            Layout::Cluster => &[Fault::FailOver, Fault::MoveSlot, Fault::MoveSlot],
        };
        let faults = faults
            .chain(of_several.iter().copied())
            .filter(|fault| !limits.without.contains(fault))
            .collect();
        let storms = of_few(4);
        // So threads share them.
        args.connections = random::one_in(2).then(|| of_few(2));
        let is_deaf = random::one_in(3) && program.waits_in_lines() && args.processes > 1;
        if let Some(variant) = limits.variant {
            begin(seed.wrapping_add(variant));
        }
        Self {
            seed,
            program,
            args,
            layout,
            preempts,
            order,
            faults,
            is_deaf,
            storms: storms.min(limits.storms.unwrap_or(storms)),
            steps: limits.steps.unwrap_or(MOST_STEPS).min(MOST_STEPS),
            slow: limits.slow.unwrap_or(0).cast_signed() * 10_000_000,
        }
    }

    /// True if requests meet no faults.
    pub fn is_mild(&self) -> bool {
        self.program.is_mild(&self.args)
    }

    /// What the checker allows.
    pub fn bounds(&self) -> Bounds {
        self.program.bounds(&self.args)
    }
}

/// The name of a value on the command line.
fn name_of(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("each has a name");
    value.get_name().to_owned()
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
            "seed {}: {:?}, {}, {processes} x {threads} threads, {locks} locks, {kind}, \
             preempts {}, {:?}, {} storms, faults {:?}, connections {:?}, is_deaf {}",
            self.seed,
            self.program,
            self.layout,
            self.preempts,
            self.order,
            self.storms,
            self.faults,
            self.args.connections,
            self.is_deaf,
        )
    }
}
