//! `leasehold run`: a command that runs while a lock is held, and no longer.
//!
//! The job is ended before its lease can be over on the server, whatever becomes of Redis: that is
//! what [`schedule`] is for. This process holds the lock on its main thread, which starts the job
//! and stays with it ([`supervisor`]); signals and the questions to Redis have threads of their
//! own.

mod heartbeat;
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

use super::args::{RedisArgs, RunArgs};
use super::connect;
use super::outcome::{Failure, LOST, Result};
use super::reporter::Reporter;
use crate::clock::Moment;
use job::{Job, SIGNALLED};
use leasehold::Error;
use leasehold::Lease;
use leasehold::LockClient;
use leasehold::{Lock, LockGuard, RedLock};
use program::Program;
use schedule::{Schedule, Why};
use signals::Signals;
use supervisor::{End, Supervisor};
use terminal::Terminal;

/// Takes the lock, runs the command, gives the lock back. The status is the command's, unless the
/// lock was not had or not kept.
pub(super) fn run(args: &RunArgs, redis: &RedisArgs, reporter: Reporter) -> Result<ExitCode> {
    check(args, redis)?;
    let program = Program::find(&args.command)?;
    // Before all the rest: what comes from here on is caught until that is over.
    let signals = Signals::catch()?;
    let clients = connect::clients(redis, Some(args.lease))?;
    reporter.step(format!("waiting for lock {:?}", args.key));
    let asked = Moment::now();
    let acquired = acquire(args, redis, &clients, &signals);
    if let Some(signal) = signals.ended_the_wait() {
        reporter.step(format!("signal {signal} ended the wait"));
        // Here a guard gives back what was had at the last moment.
        drop(acquired);
        return Ok(ExitCode::from(
            u8::try_from(SIGNALLED + signal).unwrap_or(LOST),
        ));
    }
    let (guard, token) = acquired?.ok_or_else(|| Error::HeldByAnother {
        lock: args.key.clone(),
        waited: Moment::now().since(asked),
    })?;
    reporter.step(format!("have lock {:?}", args.key));
    let had = Moment::now();
    let end = hold(args, &guard, token, had, &program, &signals, reporter)?;
    finish(args, guard, had, &end, reporter)?;
    Ok(ExitCode::from(end.status))
}

/// What clap does not check.
fn check(args: &RunArgs, redis: &RedisArgs) -> Result<()> {
    if args.fenced && redis.redlock {
        return Err(Failure::usage(
            "--fenced is not for --redlock: independent servers count apart",
        ));
    }
    Ok(())
}

/// Takes the lock. Returns the guard and, for a fenced lock, the token of the hold.
fn acquire(
    args: &RunArgs,
    redis: &RedisArgs,
    clients: &[LockClient],
    signals: &Signals,
) -> leasehold::Result<Option<(LockGuard, Option<u64>)>> {
    let wait = if args.no_wait {
        Duration::ZERO
    } else {
        args.wait.unwrap_or(Duration::MAX)
    };
    let (lease, interrupt) = (Lease::RENEWED, &signals.interrupt);
    let lock: Box<dyn Lock> = match clients {
        [client] if args.fenced => {
            let lock = client.fenced_lock(&args.key);
            let guard = lock.try_acquire_interruptibly(wait, lease, interrupt)?;
            return Ok(guard.map(|guard| {
                let token = guard.fencing_token();
                (guard.into(), Some(token))
            }));
        }
        [client] if !redis.redlock => Box::new(client.reentrant_lock(&args.key)),
        clients => Box::new(RedLock::new(clients, &args.key)),
    };
    let guard = lock.try_acquire_interruptibly(wait, lease, interrupt)?;
    Ok(guard.map(|guard| (guard, None)))
}

/// Runs the command while the guard stands.
fn hold(
    args: &RunArgs,
    guard: &LockGuard,
    token: Option<u64>,
    had: Moment,
    program: &Program<'_>,
    signals: &Signals,
    reporter: Reporter,
) -> Result<End> {
    signals.catch_stops()?;
    let beat = heartbeat::beat(args.lease);
    std::thread::scope(|scope| {
        let _beating = heartbeat::start(scope, guard, beat)?;
        let time_is_up = args.max_hold.map_or(Moment::NEVER, |time| had.after(time));
        // It may have been lost since Redis granted it.
        guard.check()?;
        let supervisor = Supervisor {
            guard,
            job: Job::start(program, &args.key, token)?,
            schedule: Schedule::new(args.lease, args.kill_after, time_is_up),
            terminal: Terminal::open(),
            reporter,
            unheeded: None,
            told_to_stop: false,
            stopped_by: None,
            is_beyond_us: false,
        };
        Ok(supervisor.keep(signals, beat))
    })
}

/// Gives the lock back, now or later.
fn finish(
    args: &RunArgs,
    guard: LockGuard,
    had: Moment,
    end: &End,
    reporter: Reporter,
) -> Result<()> {
    // A command that never ran needs no time after it.
    let least = args.at_least.filter(|_| !end.in_vain);
    let keep_until = least.map_or(had, |time| had.after(time));
    let left = keep_until.left();
    let is_kept = left >= Duration::from_millis(1);
    let is_silent = end.why == Some(Why::Unconfirmed);
    // A Redis that was silent may be back, and the lock is to stay. Else it is not waited for.
    let may_stand = is_silent && is_kept && guard.check().is_ok();
    if !may_stand && !matches!(end.why, None | Some(Why::TimeIsUp)) {
        // What may still be ours in Redis is given back on the way.
        return Ok(());
    }
    let given_back = if is_kept {
        guard.unlock_after(left)
    } else {
        guard.unlock()
    };
    match given_back {
        Ok(()) => reporter.step(format!("gave lock {:?} back", args.key)),
        // Why the job was ended has been told.
        Err(error) if is_silent => reporter.step(Failure::from(error)),
        // Somebody else may have run beside the command.
        Err(error @ (Error::Lost { .. } | Error::NotHeld { .. })) => return Err(error.into()),
        Err(error) => reporter.warning(Failure::from(error)),
    }
    Ok(())
}
