//! The command `leasehold`: locks for shells, cron and CI jobs.

mod args;
mod break_lock;
mod connect;
mod doctor;
mod json;
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
#[cfg(unix)]
mod run;
mod scan;
mod show;
mod stderr;
mod table;
#[cfg(test)]
mod tests;
#[cfg(unix)]
mod watch;

use std::io;
use std::process::ExitCode;
use std::thread::{Builder, JoinHandle};

use args::{Args, Command};
use outcome::Result;
use reporter::Reporter;

fn main() -> ExitCode {
    let status = work();
    stderr::finish();
    status
}

fn work() -> ExitCode {
    #[cfg(unix)]
    if let Some(failed) = run::become_job(std::env::args_os()) {
        return failed;
    }
    let args = match Args::parse_or_explain() {
        Ok(args) => args,
        Err(failure) => return failure.report(),
    };
    run(&args).unwrap_or_else(|failure| {
        // On many machines all but one get it.
        if args.quiet && failure.is_expected {
            return ExitCode::from(failure.status);
        }
        failure.report()
    })
}

fn run(args: &Args) -> Result<ExitCode> {
    let reporter = Reporter::new(args.quiet, args.verbose);
    match &args.command {
        #[cfg(unix)]
        Command::Run(what) => run::run(what, &args.redis, reporter),
        #[cfg(unix)]
        Command::Hold(what) => run::hold(what, &args.redis, reporter),
        Command::List(list) => list::list(&args.redis, list, args.color, reporter),
        Command::Show(show) => show::show(&args.redis, show, reporter),
        Command::Permits(wanted) => permits::permits(&args.redis, wanted, reporter),
        Command::Break(wanted) => break_lock::break_lock(&args.redis, wanted, reporter),
        #[cfg(unix)]
        Command::Watch(watch) => watch::watch(&args.redis, watch, reporter),
        #[cfg(not(unix))]
        Command::Run(_) | Command::Hold(_) | Command::Watch(_) => {
            Err(outcome::Failure::usage("run, hold and watch need a Unix"))
        }
        Command::Doctor(doctor) => doctor::run(args, doctor),
        Command::Completions(wanted) => manual::completions(wanted),
        Command::Man => manual::man(),
    }
}

/// Starts a thread, `leasehold-` and this name.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(format!("leasehold-{name}")).spawn(run)
}
