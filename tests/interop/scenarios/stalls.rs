//! A thread of a Java process and threads of a Rust process want one lock all the time. None
//! of them waits long, although a lost wake-up would cost nearly a whole lease, or ten command
//! timeouts if it is one between threads of this library.

use std::time::Duration;

use super::ensure;
use crate::checks::{Check, Outcome};
use crate::party::{Pending, Side};
use crate::run_queue::RunQueue;
use crate::stage::Stage;
use crate::support::unique;

/// Both libraries have this lease by default.
const LEASE: Duration = Duration::from_secs(30);

const WINDOWS: u32 = 5;
const TIME: Duration = Duration::from_millis(1_500);
const HELD: Duration = Duration::from_millis(2);

const JAVA_THREADS: u32 = 1;
const RUST_THREADS: u32 = 8;

/// The longest wait of a thread, apart from the time in which a thread of the two processes or of
/// the server waited for a CPU.
const LONGEST: Duration = Duration::from_secs(1);

/// The time from one sample of the run queue to the next.
const PAUSE: Duration = Duration::from_millis(10);

pub fn checks() -> Vec<Check> {
    vec![Check::once("plain", "1 + 8 threads do not wait long", run)]
}

/// What the threads of one process have done in a window.
#[derive(Debug)]
struct Report {
    count: u64,
    longest: Duration,
}

impl Report {
    fn of(pending: Pending<'_>) -> crate::Result<Self> {
        let reply = pending.expect("")?.result;
        let numbers: Vec<u64> = reply
            .split(' ')
            .map_while(|word| word.parse().ok())
            .collect();
        let [count, longest] = numbers[..] else {
            return Err(reply.into());
        };
        Ok(Self {
            count,
            longest: Duration::from_micros(longest),
        })
    }
}

fn run(stage: &Stage, kind: &'static str) -> Outcome {
    let java = stage.start(Side::Java, LEASE)?;
    let rust = stage.start(Side::Rust, LEASE)?;
    let processes = [java.process(), rust.process(), stage.server_process()?];
    let (mut counts, mut longest) = ([0; 2], [Duration::ZERO; 2]);
    for window in 0..=WINDOWS {
        let name = unique(kind);
        let load = |threads| {
            let [time, held] = [TIME, HELD].map(|time| time.as_millis());
            format!("waits {kind} {name} {threads} {time} {held}")
        };
        let mut run_queue = RunQueue::of(processes);
        let java = java.thread(1).begin(&load(JAVA_THREADS))?;
        let rust = rust.thread(1).begin(&load(RUST_THREADS))?;
        while java.is_waiting() || rust.is_waiting() {
            std::thread::sleep(PAUSE);
            run_queue.sample();
        }
        let reports = [Report::of(java)?, Report::of(rust)?];
        if window == 0 {
            // Java loads and compiles the code.
            continue;
        }
        for (at, report) in reports.iter().enumerate() {
            ensure(
                report.longest < LONGEST + run_queue.waited(),
                format!("Java, Rust: {reports:?}; {run_queue}"),
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
