//! `leasehold run`: runs a command while a lock is held.
//!
//! The job ends before its lease can end on the server, whatever happens to Redis: [`schedule`]
//! decides when. The main thread acquires the lock, starts the job and watches it ([`supervisor`]).
//! Signals and the requests to Redis have their own threads.

mod heartbeat;
mod held;
mod job;
#[cfg_attr(not(target_os = "linux"), path = "parent_elsewhere.rs")]
mod parent;
mod program;
mod schedule;
mod signals;
mod supervisor;
mod terminal;

use std::process::ExitCode;
use std::time::Duration;

pub(super) use parent::become_job;

use super::args::{Kind, RedisArgs, RunArgs};
use super::connect;
use super::outcome::{Failure, LOST, Result};
use super::reporter::Reporter;
use crate::clock::Moment;
use held::Held;
use job::{Job, SIGNALLED};
use leasehold::Error;
use program::Program;
use schedule::{Schedule, Why};
use signals::Signals;
use supervisor::{End, Supervisor};
use terminal::Terminal;

/// Acquires the lock, runs the command and releases the lock. The status is that of the command,
/// unless the lock was not acquired or was lost.
pub(super) fn run(args: &RunArgs, redis: &RedisArgs, reporter: Reporter) -> Result<ExitCode> {
    check(args, redis)?;
    let program = Program::find(&args.command)?;
    // First of all, so that no signal is missed from here on.
    let signals = Signals::catch()?;
    let clients = connect::clients(redis, Some(args.lease))?;
    reporter.step(format!("waiting for lock {:?}", args.key));
    let asked = Moment::now();
    let acquired = Held::acquire(args, redis, &clients, &signals.interrupt);
    if let Some(signal) = signals.ended_the_wait() {
        reporter.step(format!("signal {signal} ended the wait"));
        // The lock may have been acquired at the last moment. Its guard releases it.
        drop(acquired);
        return Ok(ExitCode::from(
            u8::try_from(SIGNALLED + signal).unwrap_or(LOST),
        ));
    }
    let held = acquired?.ok_or_else(|| Error::HeldByAnother {
        lock: args.key.clone(),
        waited: Moment::now().since(asked),
    })?;
    reporter.step(format!("acquired lock {:?}", args.key));
    let acquired_at = Moment::now();
    let end = hold(args, &held, acquired_at, &program, &signals, reporter)?;
    finish(args, held, acquired_at, &end, reporter)?;
    Ok(ExitCode::from(end.status))
}

/// Checks what clap does not.
fn check(args: &RunArgs, redis: &RedisArgs) -> Result<()> {
    if args.fenced && redis.redlock {
        return Err(Failure::usage(
            "--fenced does not work with --redlock: independent servers count separately",
        ));
    }
    if args.kind != Kind::Reentrant && redis.redlock {
        return Err(Failure::usage(
            "--kind does not work with --redlock: only a reentrant lock exists on several servers",
        ));
    }
    if matches!(args.kind, Kind::Permits(_)) && args.at_least.is_some() {
        return Err(Failure::usage(
            "--at-least does not work with --kind permits=N: a permit cannot be kept",
        ));
    }
    Ok(())
}

/// Runs the command while the lock is held.
fn hold(
    args: &RunArgs,
    held: &Held,
    acquired_at: Moment,
    program: &Program<'_>,
    signals: &Signals,
    reporter: Reporter,
) -> Result<End> {
    signals.catch_stops()?;
    let beat = heartbeat::beat(args.lease);
    std::thread::scope(|scope| {
        let _heartbeat = heartbeat::start(scope, held, beat)?;
        let time_is_up = args
            .max_hold
            .map_or(Moment::NEVER, |time| acquired_at.after(time));
        // The lock may have been lost since it was acquired.
        held.check()?;
        let supervisor = Supervisor {
            held,
            job: Job::start(program, &args.key, held.token())?,
            schedule: Schedule::new(args.lease, args.kill_after, time_is_up),
            terminal: Terminal::open(),
            reporter,
            continue_by: None,
            stop_requested: false,
            stopped_by: None,
            cannot_signal: false,
        };
        Ok(supervisor.run(signals, beat))
    })
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
    match held.release(keeps_lock.then_some(left)) {
        Ok(()) => reporter.step(format!("released lock {:?}", args.key)),
        // The reason was reported when the job was ended.
        Err(error) if is_unconfirmed => reporter.step(Failure::from(error)),
        // Another client may have run at the same time.
        Err(error @ (Error::Lost { .. } | Error::NotHeld { .. })) => return Err(error.into()),
        Err(error) => reporter.warning(Failure::from(error)),
    }
    Ok(())
}
