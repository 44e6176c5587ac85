//! Threads of a Java process and of a Rust process compete for one lock.

use std::time::Duration;

use redis::cmd;

use super::{KINDS, ensure};
use crate::checks::{Check, Outcome};
use crate::stage::{Cast, Stage};
use crate::support::unique;

const THREADS: u32 = 4;
const TIME: Duration = Duration::from_secs(2);

pub fn checks() -> Vec<Check> {
    let check = |kind| Check::once(kind, "4 + 4 threads count", count);
    KINDS.map(check).into()
}

fn count(Cast { stage, kind, .. }: Cast<'_>) -> Outcome {
    let lock = format!("{kind} {}", unique(kind));
    let [java, rust] = contend(stage, [&lock, &lock], THREADS, TIME)?;
    for (side, count) in [("Java", java), ("Rust", rust)] {
        ensure(count > 0, format!("{side} never acquired the lock"))?;
    }
    Ok(format!(
        "Java {java} + Rust {rust} in {TIME:?}, the sum is exact"
    ))
}

/// Threads of both processes read and write a counter under a lock, which each process has its own
/// words for. Returns how often each process did. Fails if an increment was lost.
pub fn contend(
    stage: &Stage,
    [java, rust]: [&str; 2],
    threads: u32,
    time: Duration,
) -> crate::Result<[u64; 2]> {
    let counter = unique("counter");
    let load = format!("{counter} {threads} {}", time.as_millis());
    let java = stage
        .java
        .thread(1)
        .begin(&format!("contend {java} {load}"))?;
    let rust = stage
        .rust
        .thread(1)
        .begin(&format!("contend {rust} {load}"))?;
    let counts = [java.number()?, rust.number()?];
    let sum: u64 = stage.ask(cmd("GET").arg(&counter))?;
    let expected: u64 = counts.iter().sum();
    ensure(
        sum == expected,
        format!("the counter is {sum} after {expected} increments: {counts:?}"),
    )?;
    Ok(counts)
}
