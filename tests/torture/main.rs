//! Worker processes acquire a few locks while the conductor injects faults. Every process writes an
//! event log; afterwards a checker reads the logs and reports violations of the locks' promises.
//!
//! A worker that was paused cannot notice that its lease expired meanwhile. So the checker uses
//! only what the lock confirms: a holder notes the time, then calls `check`. If that succeeds, the
//! lock was held from the return of the acquire until the noted time.

mod clock;
mod conductor;
mod faults;
#[path = "../history/mod.rs"]
mod history;
mod log;
mod network;
mod process;
mod report;
mod server;
mod stall_monitor;
mod starvation;
mod worker;
mod workers;
#[allow(dead_code, reason = "another program uses the rest")]
#[path = "../workload/mod.rs"]
mod workload;

// The folders that are included here call each other, and the files of this one, by these names.
use history::{around, checker, record, remains};
use workload::{args, client_id, event_log, hold_style, kind, worker_thread};

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::Parser;
use tempfile::TempDir;

use crate::args::Args;
use crate::conductor::Conductor;
use crate::kind::Kind;
use crate::log::{CONDUCTOR, Log};
use crate::server::Server;
use crate::workers::Workers;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match args.worker {
        Some(number) => worker::work(&args, number),
        None => torture(args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}

fn torture(mut args: Args) -> Result<ExitCode> {
    let mut log = LogDirectory::of(&args)?;
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed))?;
    if !args.check_only {
        let seed = *args.seed.get_or_insert_with(|| fastrand::u64(..1_000_000));
        let Args {
            processes,
            threads,
            locks,
            seconds,
            kind,
            ..
        } = args;
        if kind.and_then(Kind::permits).is_some() {
            return Err("only the simulation has semaphores".into());
        }
        let kind = kind.map_or(String::new(), |kind| format!("{kind} "));
        println!(
            "seed {seed}: {processes} x {threads} threads, {locks} {kind}locks, \
             {seconds} s of faults"
        );
        conduct(&args, log.path())?;
    }
    let records = log::read_all(log.path())?;
    let violations = checker::check(&records, &args.bounds()).violations;
    if !violations.is_empty() {
        log.keep();
    }
    report::print(&records, &violations, log.path())?;
    if !report::has_enough_holds(&records) {
        return Err("too few holds: the run proves nothing".into());
    }
    Ok(ExitCode::from(u8::from(!violations.is_empty())))
}

/// Ctrl-C was pressed.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Starts the server and the workers, injects the faults, and stops everything.
fn conduct(args: &Args, directory: &Path) -> Result<()> {
    let log = Arc::new(Log::open(directory, CONDUCTOR)?);
    let monitored = Arc::downgrade(&log);
    thread::spawn(move || stall_monitor::run(&monitored));
    let server = Server::start()?;
    let workers = Workers::start(args, &server, directory.to_owned(), &log)?;
    let mut conductor = Conductor {
        args: args.clone(),
        random: fastrand::Rng::with_seed(args.seed.unwrap_or(0)),
        server,
        workers,
        log,
        undo: Vec::new(),
        killed: None,
        server_paused: false,
    };
    conductor.run(&INTERRUPTED)?;
    conductor.finish()
}

/// The directory of the event logs.
enum LogDirectory {
    Given(PathBuf),
    Temporary(TempDir),
}

impl LogDirectory {
    fn of(args: &Args) -> Result<Self> {
        let Some(path) = &args.log else {
            return Ok(Self::Temporary(tempfile::tempdir()?));
        };
        std::fs::create_dir_all(path)?;
        if !args.check_only && std::fs::read_dir(path)?.next().is_some() {
            return Err(format!("{} is not empty", path.display()).into());
        }
        Ok(Self::Given(path.clone()))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }

    fn keep(&mut self) {
        if let Self::Temporary(directory) = self {
            directory.disable_cleanup(true);
        }
    }
}
