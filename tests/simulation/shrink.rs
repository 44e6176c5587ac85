//! Finds a shorter run that still fails: with fewer steps, storms, processes, threads, locks and
//! faults.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use crate::apart::Run;
use crate::faults::Fault;
use crate::scenario::{Limits, Scenario};

/// How long it searches.
const TIME: Duration = Duration::from_secs(60);

/// How long it tries one shorter scenario, and how many variants of it.
const TRY: Duration = Duration::from_secs(2);
const VARIANTS: u64 = 4;

/// A run of fewer steps is not worth a search.
const FEWEST_STEPS: u64 = 1_000;

/// In how many ways a scenario is made shorter.
const WAYS: usize = 6;

/// Searches scenarios that are shorter than the one with this seed and these limits, which fails
/// with this symptom. Returns the shortest that has it, too, if there is one.
pub fn shrink(seed: u64, limits: &Limits, symptom: &str) -> io::Result<Option<Run>> {
    let end = Instant::now() + TIME;
    let mut best: Option<(Limits, Run)> = None;
    // How many ways in a row did not make it shorter.
    let mut failed = 0;
    for way in (0..WAYS).cycle() {
        let current = best.as_ref().map_or(limits, |(limits, _)| limits);
        let shorter = shorter(&Scenario::of(seed, current), current);
        let mut found = None;
        for limits in &shorter[way] {
            found = find(seed, limits, symptom, end)?;
            if found.is_some() {
                break;
            }
        }
        failed = if found.is_some() { 0 } else { failed + 1 };
        best = found.or(best);
        if failed == WAYS || Instant::now() >= end {
            break;
        }
    }
    Ok(best.map(|(_, run)| run))
}

/// The scenarios that are shorter in each of the ways, the shortest first.
fn shorter(scenario: &Scenario, limits: &Limits) -> [Vec<Limits>; WAYS] {
    let with = |change: &dyn Fn(&mut Limits)| {
        let mut limits = limits.clone();
        change(&mut limits);
        limits
    };
    let fewer = |number: u32, limit: fn(&mut Limits) -> &mut Option<u32>| {
        let fewer = (1..number).map(|number| with(&|limits| *limit(limits) = Some(number)));
        fewer.collect()
    };
    let without = |faults: &[Fault]| with(&|limits| limits.without.extend(faults));
    let parts = [1, 2, 4, 8, 12].map(|part| scenario.steps * part / 16);
    let steps = parts.into_iter().filter(|steps| *steps >= FEWEST_STEPS);
    let faults: BTreeSet<Fault> = scenario.faults.iter().copied().collect();
    let faults: Vec<Fault> = faults.into_iter().collect();
    // Half of them, then one.
    let halves = faults.chunks(faults.len().div_ceil(2).max(1));
    let each = faults.chunks(1);
    [
        // A run that only ends earlier is the same until then.
        steps
            .map(|steps| with(&|limits| limits.steps = Some(steps)))
            .collect(),
        fewer(scenario.storms, |limits| &mut limits.storms),
        fewer(scenario.args.processes, |limits| &mut limits.processes),
        fewer(scenario.args.threads, |limits| &mut limits.threads),
        fewer(scenario.args.locks, |limits| &mut limits.locks),
        halves.chain(each).map(without).collect(),
    ]
}

/// Runs variants of the scenario until one has the symptom.
fn find(
    seed: u64,
    limits: &Limits,
    symptom: &str,
    end: Instant,
) -> io::Result<Option<(Limits, Run)>> {
    let end = end.min(Instant::now() + TRY);
    let mut limits = limits.clone();
    for variant in 0..=VARIANTS {
        if Instant::now() >= end {
            break;
        }
        if variant > 0 {
            limits.variant = Some(variant);
        }
        let run = Run::of(seed, &limits)?;
        if run.text.contains(symptom) {
            return Ok(Some((limits, run)));
        }
    }
    Ok(None)
}
