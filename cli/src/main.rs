//! The command `leasehold`: locks for shells, cron and CI jobs.

mod args;
mod break_lock;
mod connect;
mod doctor;
mod kinds;
mod list;
mod lookup;
mod manual;
mod mistakes;
mod name;
mod outcome;
mod output;
mod permits;
mod probe;
mod reporter;
mod row;
mod run;
mod scan;
mod show;
mod stderr;
mod table;
#[cfg(test)]
mod tests;
mod watch;

#[cfg(not(unix))]
compile_error!("the command needs a Unix");

use std::io;
use std::process::ExitCode;
use std::thread::{Builder, JoinHandle};

use args::{Args, Command};
use outcome::{Failure, Result};

fn main() -> ExitCode {
    let status = work();
    stderr::finish();
    status
}

fn work() -> ExitCode {
    if let Some(failed) = run::become_job(std::env::args_os()) {
        return failed;
    }
    let status = Args::parse_or_explain().and_then(|args| run(&args));
    status.map_or_else(Failure::report, ExitCode::from)
}

/// Returns the exit status.
fn run(args: &Args) -> Result<u8> {
    reporter::set(args.quiet, args.verbose);
    let redis = &args.redis;
    match &args.command {
        Command::Run(what) => return run::run(what, redis),
        Command::Hold(what) => return run::hold(what, redis),
        Command::List(list) => list::list(redis, list, args.color)?,
        Command::Show(show) => show::show(redis, show)?,
        Command::Permits(wanted) => permits::permits(redis, wanted)?,
        Command::Break(wanted) => break_lock::break_lock(redis, wanted)?,
        Command::Watch(watch) => watch::watch(redis, watch)?,
        Command::Doctor(doctor) => return doctor::run(args, doctor),
        Command::Completions(wanted) => manual::completions(wanted)?,
        Command::Man => manual::man()?,
    }
    Ok(0)
}

/// Starts a thread, `leasehold-` and this name.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(format!("leasehold-{name}")).spawn(run)
}
