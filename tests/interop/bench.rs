//! Compares the times of an acquire and a release that no other thread waits for.

use std::time::Duration;

use crate::Result;
use crate::party::Party;
use crate::stage::Stage;
use crate::support::unique;

/// leasehold takes at most this share of Redisson's time.
const BOUND: f64 = 0.8;

const ROUNDS: usize = 11;
const PAIRS: u32 = 1_000;

/// The kinds of locks and their names, after a common prefix.
const LOCKS: &[(&str, &[&str])] = &[
    ("plain", &[""]),
    ("fenced", &[""]),
    ("fair", &[""]),
    ("read", &[""]),
    ("write", &[""]),
    ("multi", &["a", "b"]),
];

/// What is not a lock.
const OTHERS: &[&str] = &["semaphore", "leased", "latch"];

/// True if all ratios are within the bound. A filter selects kinds.
pub fn run(stage: &Stage, filter: &str) -> Result<bool> {
    println!("median of an acquire and a release, {ROUNDS} rounds of {PAIRS}; bound {BOUND}");
    let mut passed = true;
    let chosen = |kind: &str| kind.contains(filter);
    for (kind, suffixes) in LOCKS.iter().filter(|(kind, _)| chosen(kind)) {
        let prefix = unique(kind);
        let names: Vec<_> = suffixes
            .iter()
            .map(|suffix| format!("{prefix}{suffix}"))
            .collect();
        let command = format!("pairs {kind} {} {PAIRS}", names.join(","));
        passed &= compare(stage, kind, &command)?;
    }
    for kind in OTHERS.iter().filter(|kind| chosen(kind)) {
        let name = unique(kind);
        if *kind != "latch" {
            let java = stage.java.thread(1);
            java.expect(&format!("{kind}-set {name} 1"), "true")?;
        }
        passed &= compare(stage, kind, &format!("{kind}-pairs {name} {PAIRS}"))?;
    }
    Ok(passed)
}

/// Runs the command on both sides, alternating.
fn compare(stage: &Stage, kind: &str, command: &str) -> Result<bool> {
    let measure = |party: &Party| party.thread(1).number(command).map(Duration::from_nanos);
    // Java compiles the code while it runs.
    for party in [&stage.java, &stage.java, &stage.java, &stage.rust] {
        measure(party)?;
    }
    let (mut java, mut rust) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        java.push(measure(&stage.java)?);
        rust.push(measure(&stage.rust)?);
    }
    let [java, rust] = [java, rust].map(median);
    let ratio = rust.as_secs_f64() / java.as_secs_f64();
    let verdict = if ratio <= BOUND { "ok    " } else { "FAILED" };
    println!("{verdict} {kind:9}: Redisson {java:.1?}, leasehold {rust:.1?}, ratio {ratio:.2}");
    Ok(ratio <= BOUND)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
