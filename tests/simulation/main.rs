//! The library in a simulated world: its real source and its real scripts, on threads, a network and
//! clocks that follow from a seed. See `docs/simulation.md`.

#![expect(
    clippy::expect_used,
    reason = "a scenario that cannot go on is a defect of the simulation"
)]

// As in the library under test: the threads of the world.
extern crate leasehold_simulation_std as std;

#[path = "../../examples/torture/args.rs"]
mod args;
#[path = "../../examples/torture/checker/mod.rs"]
mod checker;
mod clock;
mod conductor;
#[path = "../../examples/torture/event_log.rs"]
mod event_log;
mod faults;
#[path = "../../testing/src/frame.rs"]
mod frame;
#[path = "../../examples/torture/hold_style.rs"]
mod hold_style;
#[path = "../../examples/torture/kind.rs"]
mod kind;
#[path = "../../testing/src/known_scripts.rs"]
mod known_scripts;
mod log;
#[path = "../../examples/torture/read_write.rs"]
mod read_write;
#[path = "../../examples/torture/record.rs"]
mod record;
mod redis_server;
mod run;
#[path = "../../examples/torture/rush.rs"]
mod rush;
mod scenario;
#[path = "../../testing/src/in_memory/server/mod.rs"]
mod server;
#[path = "../../examples/torture/slice_monitor.rs"]
mod slice_monitor;
mod starvation;
mod worker;
#[path = "../../examples/torture/worker_thread.rs"]
mod worker_thread;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;

use run::Outcome;
use scenario::Limits;

/// Runs scenarios until the time is over, each in a process of its own.
#[derive(Debug, Parser)]
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
    #[command(flatten)]
    limits: Limits,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(seed) = options.scenario {
        return run::run(seed, &options.limits, options.log.as_deref());
    }
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    let began = Instant::now();
    let mut all = Outcome::default();
    let mut number = 0;
    let goes_on = |number, all: &Outcome| {
        let is_over = began.elapsed() >= Duration::from_secs(options.seconds);
        number == 0 || !is_over && !(options.first && all.violations > 0)
    };
    while goes_on(number, &all) {
        let one = scenario_seed(seed, number);
        number += 1;
        match run_apart(one, &options.limits) {
            Ok(outcome) => all.add(outcome),
            Err(failure) => {
                println!("VIOLATION {failure}");
                all.violations += 1;
            }
        }
    }
    println!("{all}");
    match all.violations {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// The seed of scenario `number`.
fn scenario_seed(seed: u64, number: u64) -> u64 {
    fastrand::Rng::with_seed(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).u64(..)
}

/// Runs a scenario in a process of its own, because statics of the library belong to a world.
fn run_apart(seed: u64, limits: &Limits) -> Result<Outcome, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["--scenario", &seed.to_string()]);
    command.args(limits.arguments());
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let outcome: Outcome = last
        .parse()
        .map_err(|()| format!("scenario {seed} ended with {}: {last}", output.status))?;
    if outcome.violations > 0 {
        print!("{}", &text[..text.len() - last.len() - 1]);
    }
    Ok(outcome)
}
