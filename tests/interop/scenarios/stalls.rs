//! A thread of a Java process and threads of a Rust process want one lock all the time. None of them
//! waits long, although a lost wake-up would cost nearly a whole lease.

use std::time::{Duration, Instant};

use redis::cmd;

use super::ensure;
use crate::checks::{Check, Outcome};
use crate::party::{Pending, Side};
use crate::stage::Stage;
use crate::support::unique;

/// Both libraries have this lease by default.
const LEASE: Duration = Duration::from_secs(30);

const WINDOWS: u32 = 5;
const TIME: Duration = Duration::from_millis(1_500);
const HELD: Duration = Duration::from_millis(2);

const JAVA_THREADS: u32 = 1;
const RUST_THREADS: u32 = 8;

/// The longest wait on a machine that does not stand still.
const LONGEST: Duration = Duration::from_secs(3);

pub fn checks() -> Vec<Check> {
    vec![Check::once("plain", "1 + 8 threads do not wait long", run)]
}

/// What one process or the server has done in a window.
#[derive(Debug)]
struct Report {
    count: u64,
    longest: Duration,
    stood_still: Duration,
}

impl Report {
    fn of(pending: Pending<'_>) -> crate::Result<Self> {
        let reply = pending.expect("")?.result;
        let numbers: Vec<u64> = reply
            .split(' ')
            .map_while(|word| word.parse().ok())
            .collect();
        let [count, longest, stood_still] = numbers[..] else {
            return Err(reply.into());
        };
        Ok(Self {
            count,
            longest: Duration::from_micros(longest),
            stood_still: Duration::from_micros(stood_still),
        })
    }
}

fn run(stage: &Stage, kind: &'static str) -> Outcome {
    let java = stage.start(Side::Java, LEASE)?;
    let rust = stage.start(Side::Rust, LEASE)?;
    let (mut counts, mut longest) = ([0; 2], [Duration::ZERO; 2]);
    for window in 0..=WINDOWS {
        let name = unique(kind);
        let load = |threads| {
            let [time, held] = [TIME, HELD].map(|time| time.as_millis());
            format!("waits {kind} {name} {threads} {time} {held}")
        };
        let java = java.thread(1).begin(&load(JAVA_THREADS))?;
        let rust = rust.thread(1).begin(&load(RUST_THREADS))?;
        let watched = watch(stage, &name, || java.is_waiting() || rust.is_waiting())?;
        let reports = [Report::of(java)?, Report::of(rust)?];
        if window == 0 {
            // Java loads and compiles the code.
            continue;
        }
        let still = reports.iter().map(|report| report.stood_still);
        let bound = LONGEST + watched.silent + still.sum::<Duration>();
        for (at, report) in reports.iter().enumerate() {
            ensure(
                report.longest < bound,
                format!("Java, Rust: {reports:?}; {watched:?}"),
            )?;
            counts[at] += report.count;
            longest[at] = longest[at].max(report.longest);
        }
    }
    let ([java, rust], [java_wait, rust_wait]) = (counts, longest);
    ensure(java > 0 && rust > 0, format!("Java {java}, Rust {rust}"))?;
    Ok(format!(
        "longest waits: Java {java_wait:.0?} of {java}, Rust {rust_wait:.0?} of {rust}"
    ))
}

/// What the server had and did in a window.
#[derive(Debug, Default)]
struct Watched {
    /// The longest time without another holder, and that holder.
    longest: (Duration, Option<String>),
    /// The longest time without a reply.
    silent: Duration,
}

/// Looks at the holders of the lock while `goes_on`.
fn watch(stage: &Stage, name: &str, goes_on: impl Fn() -> bool) -> crate::Result<Watched> {
    let mut watched = Watched::default();
    let (mut holder, mut since) = (None, Instant::now());
    while goes_on() {
        let asked = Instant::now();
        let found = stage.ask::<Vec<String>>(cmd("HKEYS").arg(name))?.pop();
        watched.silent = watched.silent.max(asked.elapsed());
        if found != holder {
            watched.longest = watched.longest.max((since.elapsed(), holder));
            (holder, since) = (found, Instant::now());
        }
        std::thread::sleep(HELD);
    }
    watched.longest = watched.longest.max((since.elapsed(), holder));
    Ok(watched)
}
