//! Compares the time of a lock and unlock that no other thread wants.

use std::time::Duration;

use crate::Result;
use crate::party::Party;
use crate::scenarios::KINDS;
use crate::stage::Stage;
use crate::support::unique;

/// leasehold takes at most this share of Redisson's time.
const BOUND: f64 = 0.8;

const ROUNDS: usize = 11;
const PAIRS: u32 = 2_000;

/// True if all ratios are within the bound.
pub fn run(stage: &Stage) -> Result<bool> {
    println!("median of a lock and unlock, {ROUNDS} rounds of {PAIRS}; bound {BOUND}");
    let mut passed = true;
    for kind in KINDS {
        let name = unique(kind);
        let measure = |party: &Party| {
            let nanos = party
                .thread(1)
                .number(&format!("pairs {kind} {name} {PAIRS}"));
            nanos.map(Duration::from_nanos)
        };
        // Java compiles the code while it runs.
        for _ in 0..3 {
            measure(&stage.java)?;
        }
        measure(&stage.rust)?;
        let (mut java, mut rust) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            java.push(measure(&stage.java)?);
            rust.push(measure(&stage.rust)?);
        }
        let [java, rust] = [java, rust].map(median);
        let ratio = rust.as_secs_f64() / java.as_secs_f64();
        let verdict = if ratio <= BOUND { "ok    " } else { "FAILED" };
        println!("{verdict} {kind}: Redisson {java:.1?}, leasehold {rust:.1?}, ratio {ratio:.2}");
        passed &= ratio <= BOUND;
    }
    Ok(passed)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
