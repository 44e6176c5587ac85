//! Tests of leasehold beside Redisson, the Java library whose locks it shares.
//!
//! A Java process and a Rust process read the same commands. The scenarios tell one to hold a lock
//! and the other to wait for it, and the other way round. `scripts/interop` builds the Java program
//! and runs this one.

mod bench;
mod checks;
mod party;
mod scenarios;
mod shares;
mod stage;
mod support;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use stage::Stage;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Error> = std::result::Result<T, E>;

/// The lease that the watchdogs of both sides renew.
const LEASE: Duration = Duration::from_millis(1_500);

const USAGE: &str = "leasehold-interop CLASSPATH [--bench] [PART OF THE NAME OF A CHECK OR A KIND]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let passed = match arguments.as_slice() {
        [worker::ROLE, url, lease] => worker::serve(url, lease).map(|()| true),
        [classpath, "--bench", filter @ ..] if filter.len() <= 1 => {
            let filter = filter.first().copied().unwrap_or_default();
            Stage::open(classpath)
                .and_then(|stage| Ok(bench::run(&stage, filter)? & shares::run(&stage, filter)?))
        }
        [classpath] => Stage::open(classpath).and_then(|stage| checks::run(stage, "")),
        [classpath, filter] => Stage::open(classpath).and_then(|stage| checks::run(stage, filter)),
        _ => Err(USAGE.into()),
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
