//! The library in a simulated world: its real source and its real scripts, on threads, a network
//! and clocks that follow from a seed. See `docs/simulation.md`.

#![expect(
    clippy::expect_used,
    reason = "a scenario that cannot go on is a defect of the simulation"
)]

// As in the library under test: the threads of the world.
extern crate leasehold_simulation_std as std;
// For what happens outside of the world.
extern crate std as real_std;

mod apart;
mod calms;
mod clock;
mod cluster;
mod conductor;
mod deployment;
mod failover;
mod faults;
#[allow(dead_code, reason = "another program uses the rest")]
#[path = "../../testing/src/frame.rs"]
mod frame;
#[allow(dead_code, reason = "another program uses the rest")]
#[path = "../history/mod.rs"]
mod history;
#[allow(dead_code, reason = "another program uses the rest")]
#[path = "../../testing/src/known_scripts.rs"]
mod known_scripts;
mod log;
mod moves;
mod plan;
mod programs;
mod queues;
mod redis_server;
mod replication;
mod run;
mod scenario;
mod sentinel;
#[allow(dead_code, unused_imports, reason = "another program uses the rest")]
#[path = "../../testing/src/in_memory/server/mod.rs"]
mod server;
mod server_clocks;
mod shrink;
mod slice_monitor;
mod slots;
mod starvation;
mod waiting;
mod worker;
#[path = "../workload/mod.rs"]
mod workload;

// The folders that are included here call each other, and the files of this one, by these names.
use history::{around, checker, record, remains};
use workload::{args, client_id, event_log, hold_style, kind, worker_thread};

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use apart::Run;
use run::Outcome;
use scenario::Limits;

/// Runs the library in simulated worlds, under random faults, until the time is over.
///
/// Each world follows from a seed. Exit status 1 if a lock broke a promise. Then the program prints
/// what happened, searches a shorter run that also fails, and prints the command that repeats it.
#[derive(Debug, Parser)]
#[command(name = "scripts/simulate")]
struct Options {
    /// Begins no scenario after this many seconds
    #[arg(default_value_t = 20)]
    seconds: u64,
    /// The seed, from which those of the scenarios are made [default: random]
    seed: Option<u64>,
    /// Ends after the first scenario with a violation
    #[arg(long)]
    first: bool,
    /// Runs only the scenario with this seed
    #[arg(long, conflicts_with_all = ["seconds", "seed"])]
    scenario: Option<u64>,
    /// Writes the log of the scenario to this file
    #[arg(long, requires = "scenario")]
    log: Option<PathBuf>,
    /// Searches no shorter run
    #[arg(long, conflicts_with = "scenario")]
    no_shrink: bool,
    #[command(flatten)]
    limits: Limits,
}

fn main() -> io::Result<ExitCode> {
    let options = Options::parse();
    if let Some(seed) = options.scenario {
        return Ok(run::run(seed, &options.limits, options.log.as_deref()));
    }
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut all = Outcome::default();
    for number in 0.. {
        let scenario = scenario_seed(seed, number);
        let run = Run::of(scenario, &options.limits)?;
        all.add(run.outcome);
        if run.fails() {
            print!("{}", run.text);
            if options.first {
                break;
            }
            if !options.no_shrink {
                print_shorter(scenario, &options.limits, run.symptom())?;
                break;
            }
        }
        if Instant::now() >= end {
            break;
        }
    }
    println!("{all}");
    Ok(match all.violations {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// The seed of scenario `number`.
fn scenario_seed(seed: u64, number: u64) -> u64 {
    fastrand::Rng::with_seed(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).u64(..)
}

/// Searches a run that is shorter than this one and has the same symptom, and prints it.
fn print_shorter(scenario: u64, limits: &Limits, symptom: &str) -> io::Result<()> {
    println!("searching a shorter run with the same violation, for up to a minute");
    match shrink::shrink(scenario, limits, symptom)? {
        Some(run) => print!("shorter:\n{}", run.text),
        None => println!("there is none"),
    }
    Ok(())
}
