//! Worker processes acquire a few locks while the conductor injects faults. Every process writes an
//! event log; afterwards a checker reads the logs and reports violations of the locks' promises.
//!
//! A worker that was paused cannot notice that its lease expired meanwhile. So the checker uses
//! only what the lock confirms: a holder notes the time, then calls `check`. If that succeeds, the
//! lock was held from the return of the acquire until the noted time.

mod args;
mod around;
mod checker;
mod client_id;
mod clock;
mod conductor;
mod event_log;
mod faults;
mod hold_style;
mod kind;
mod log;
mod network;
mod permits;
mod process;
mod queue_monitor;
mod read_write;
mod record;
mod remains;
mod report;
mod rush;
mod server;
mod slice_monitor;
mod stall_monitor;
mod starvation;
mod state;
mod worker;
mod worker_thread;
mod workers;

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
    let mut seed = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let mut acquired = 0;
    loop {
        args.seed = Some(seed);
        let round = run(&args, &mut log)?;
        acquired += round.acquired;
        let Some(wanted) = args.acquisitions else {
            return Ok(round.exit_code());
        };
        println!("{acquired} of {wanted} acquisitions");
        if round.violations > 0 || acquired >= wanted {
            return Ok(round.exit_code());
        }
        log.clear()?;
        seed += 1;
    }
}

/// Ctrl-C was pressed.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What the checker found in one run.
struct Round {
    acquired: usize,
    violations: usize,
}

impl Round {
    fn exit_code(&self) -> ExitCode {
        ExitCode::from(u8::from(self.violations > 0))
    }
}

fn run(args: &Args, log: &mut LogDirectory) -> Result<Round> {
    if !args.check_only {
        let Args {
            processes,
            threads,
            locks,
            seconds,
            kind,
            ..
        } = args;
        let seed = args.seed.unwrap_or(0);
        let kind = kind.map_or(String::new(), |kind| format!("{kind} "));
        println!(
            "seed {seed}: {processes} x {threads} threads, {locks} {kind}locks, {seconds} s of faults"
        );
        conduct(args, log.path())?;
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
    Ok(Round {
        acquired: report::acquired(&records),
        violations: violations.len(),
    })
}

/// Starts the server and the workers, injects the faults, and stops everything.
fn conduct(args: &Args, directory: &Path) -> Result<()> {
    let log = Arc::new(Log::open(directory, CONDUCTOR)?);
    let monitored = Arc::downgrade(&log);
    thread::spawn(move || stall_monitor::run(&monitored));
    let server = Server::start()?;
    if args.kind == Some(Kind::Fair) {
        let (url, locks) = (server.url(), args.locks);
        let monitored = Arc::downgrade(&log);
        thread::spawn(move || queue_monitor::run(&url, locks, &monitored));
    }
    permits::set(&server, args.locks, args.kind_of(0))?;
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

    /// Deletes the logs.
    fn clear(&self) -> Result<()> {
        for file in std::fs::read_dir(self.path())? {
            std::fs::remove_file(file?.path())?;
        }
        Ok(())
    }

    fn keep(&mut self) {
        if let Self::Temporary(directory) = self {
            directory.disable_cleanup(true);
        }
    }
}
