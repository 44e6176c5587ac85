//! One scenario: from its seed to the violations in its log.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::panic;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_simulation_world::tasks;
use leasehold_simulation_world::{End, processes};

use crate::conductor::Conductor;
use crate::log::{self, Event, Record};
use crate::scenario::{Limits, Scenario};
use crate::{around, checker};

/// The most time of the world that a scenario takes, in nanoseconds.
const LATEST: u64 = 1_000_000_000_000;

/// A world with more steps than this does not end: some of its threads wait for nothing.
const MOST_STEPS: u64 = 30_000_000;

/// The most violations that are printed.
const SHOWN: usize = 5;

/// How many threads have panicked.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// The counts of one scenario, or of several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub steps: u64,
    pub acquisitions: u64,
    pub violations: u64,
    /// How many double holds a failover or a clock explains.
    pub predicted: u64,
}

impl Outcome {
    pub fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.acquisitions += other.acquisitions;
        self.violations += other.violations;
        self.predicted += other.predicted;
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            steps,
            acquisitions,
            violations,
            predicted,
        } = self;
        writeln!(f, "{predicted} double holds that are predicted")?;
        write!(
            f,
            "{steps} steps, {acquisitions} acquisitions, {violations} violations"
        )
    }
}

impl FromStr for Outcome {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let numbers: Vec<u64> = text
            .split(['\n', ','])
            .map(str::trim)
            .filter_map(|part| part.split(' ').next()?.parse().ok())
            .collect();
        match numbers[..] {
            [predicted, steps, acquisitions, violations] => Ok(Self {
                steps,
                acquisitions,
                violations,
                predicted,
            }),
            _ => Err(()),
        }
    }
}

/// Runs the scenario with this seed, and prints its violations and its outcome.
pub fn run(seed: u64, limits: &Limits, file: Option<&Path>) -> ExitCode {
    let scenario = Scenario::of(seed, limits);
    let bounds = scenario.bounds();
    let text = scenario.to_string();
    panic::set_hook(Box::new(|panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        println!("VIOLATION a thread panicked: {panic}");
    }));
    let conductor = Conductor::new(scenario);
    let main = tasks::spawn_in(processes::NONE, move || conductor.run());
    let is_long = || leasehold_simulation_world::steps() >= MOST_STEPS;
    let end = leasehold_simulation_world::run(LATEST, || tasks::has_ended(main) || is_long());
    let records = log::take_all();
    let checker::Findings {
        violations,
        predicted,
    } = checker::check(&records, &bounds);
    let mut outcome = Outcome {
        steps: leasehold_simulation_world::steps(),
        acquisitions: acquisitions(&records),
        violations: PANICS.load(Ordering::Relaxed),
        predicted,
    };
    if end != End::Done || is_long() {
        println!("VIOLATION the world does not come to its end: {end:?}");
        outcome.violations += 1;
    }
    outcome.violations += violations.len() as u64;
    for violation in violations.iter().take(SHOWN) {
        println!("VIOLATION {violation}");
    }
    if outcome.violations > 0 {
        println!("{text}");
        let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
        for violation in &violations {
            *kinds.entry(violation.kind).or_default() += 1;
        }
        for (kind, count) in kinds {
            println!("{count} x {kind}");
        }
        if let Some(first) = violations.first() {
            let _ = around::print(&mut io::stdout(), &records, first.at);
        }
        println!("again: {}", limits.command(seed));
    }
    if let Some(path) = file
        && let Err(error) = write(&records, path)
    {
        println!("the log is not written: {error}");
    }
    println!("{outcome}");
    std::process::exit(i32::from(outcome.violations > 0));
}

/// How many locks and permits were acquired.
fn acquisitions(records: &[Record]) -> u64 {
    let is_acquired = |record: &&Record| {
        matches!(
            record.event,
            Event::Has { .. } | Event::HasAgain { .. } | Event::Held { .. }
        )
    };
    records.iter().filter(is_acquired).count() as u64
}

fn write(records: &[Record], path: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    records
        .iter()
        .try_for_each(|record| writeln!(file, "{record}"))?;
    file.flush()
}
