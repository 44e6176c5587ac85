//! `leasehold run`: runs a command while a lock is held. `leasehold hold`: only holds it.
//!
//! The job ends before its lease can end on the server, whatever happens to Redis: [`schedule`]
//! decides when. The main thread acquires the lock, starts the job and watches it ([`supervisor`]).
//! Signals and the requests to Redis have their own threads.

mod acquire;
mod held;
mod hold;
mod input;
mod job;
#[cfg_attr(not(target_os = "linux"), path = "parent_elsewhere.rs")]
mod parent;
mod program;
mod schedule;
mod signals;
mod supervisor;
mod terminal;
mod waiting_line;

use std::process::ExitCode;
use std::time::Duration;

pub(super) use hold::hold;
pub(super) use parent::become_job;

use super::args::{Kind, RedisArgs, RunArgs};
use super::connect;
use super::outcome::{Failure, LOST, Result};
use super::reporter::Reporter;
use acquire::Waited;
use held::Held;
use job::{Job, SIGNALLED};
use leasehold::__Moment as Moment;
use leasehold::Error;
use program::Program;
use schedule::{Schedule, Why};
use signals::Signals;
use supervisor::{End, Supervisor};
use terminal::Terminal;

/// Acquires the lock, runs the command and releases the lock. The status is that of the command,
/// unless the lock was not acquired or was lost.
pub(super) fn run(args: &RunArgs, redis: &RedisArgs, reporter: Reporter) -> Result<ExitCode> {
    acquire::check(&args.lock, redis)?;
    if matches!(args.lock.kind, Kind::Permits(_)) && args.at_least.is_some() {
        return Err(Failure::usage(
            "--at-least does not work with --kind permits=N: a permit cannot be kept",
        ));
    }
    let program = Program::find(&args.command)?;
    // First of all, so that no signal is missed from here on.
    let signals = Signals::catch()?;
    let held = match acquire::acquire(&args.lock, redis, &signals, reporter)? {
        Waited::Acquired(held) => held,
        Waited::Signal(signal) => return Ok(signalled(signal)),
    };
    let acquired_at = Moment::now();
    let end = supervise(args, &held, acquired_at, &program, &signals, reporter)?;
    finish(args, held, acquired_at, &end, reporter)?;
    Ok(ExitCode::from(end.status))
}

/// The status of a program that this signal ended.
fn signalled(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(SIGNALLED + signal).unwrap_or(LOST))
}

/// Runs the command while the lock is held.
fn supervise(
    args: &RunArgs,
    held: &Held,
    acquired_at: Moment,
    program: &Program<'_>,
    signals: &Signals,
    reporter: Reporter,
) -> Result<End> {
    signals.catch_stops()?;
    let time_is_up = args
        .max_hold
        .map_or(Moment::NEVER, |time| acquired_at.after(time));
    // The lock may have been lost since it was acquired.
    held.check()?;
    let supervisor = Supervisor {
        held,
        job: Job::start(program, &args.lock.key, held.token())?,
        schedule: Schedule::new(args.lock.lease, args.kill_after, time_is_up),
        terminal: Terminal::open(),
        reporter,
        continue_by: None,
        stop_requested: false,
        stopped_by: None,
        cannot_signal: false,
    };
    Ok(supervisor.run(signals, connect::confirm_every(args.lock.lease)))
}

/// Releases the lock, now or after `--at-least`.
fn finish(
    args: &RunArgs,
    held: Held,
    acquired_at: Moment,
    end: &End,
    reporter: Reporter,
) -> Result<()> {
    // A command that did not start does not keep the lock.
    let least = args.at_least.filter(|_| !end.failed_to_start);
    let keep_until = least.map_or(acquired_at, |time| acquired_at.after(time));
    let left = keep_until.left();
    let keeps_lock = left >= Duration::from_millis(1);
    let is_unconfirmed = end.why == Some(Why::Unconfirmed);
    // Redis may reply again, and then keeps the lock. Otherwise nothing waits for it.
    let may_stand = is_unconfirmed && keeps_lock && held.check().is_ok();
    if !may_stand && !matches!(end.why, None | Some(Why::TimeIsUp)) {
        // Dropping the guard releases what is left in Redis.
        return Ok(());
    }
    release(held, keeps_lock.then_some(left), is_unconfirmed, reporter)
}

/// Releases the lock, now or after `keep`. Fails if it was lost, unless that `is_reported`: another
/// client may have run at the same time.
fn release(
    held: Held,
    keep: Option<Duration>,
    is_reported: bool,
    reporter: Reporter,
) -> Result<()> {
    let name = format!("{:?}", held.name());
    match held.release(keep) {
        Ok(()) => reporter.step(format!("released lock {name}")),
        Err(error) if is_reported => reporter.step(Failure::from(error)),
        Err(error @ (Error::Lost { .. } | Error::NotHeld { .. })) => return Err(error.into()),
        Err(error) => reporter.warning(Failure::from(error)),
    }
    Ok(())
}
