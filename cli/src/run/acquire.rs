//! The wait for the lock, which a signal can end.

use std::time::Duration;

use super::held::Held;
use super::signals::Signals;
use super::waiting_line::WaitingLine;
use crate::args::{Kind, LockArgs, RedisArgs};
use crate::connect;
use crate::outcome::{Failure, Result};
use crate::reporter::Reporter;
use leasehold::__Moment as Moment;
use leasehold::Error;

/// How the wait ended.
#[derive(Debug)]
pub(super) enum Waited {
    Acquired(Held),
    /// This signal arrived first.
    Signal(i32),
}

/// Checks what clap does not.
pub(super) fn check(args: &LockArgs, redis: &RedisArgs) -> Result<()> {
    if args.fenced && redis.redlock {
        return Err(Failure::usage(
            "--fenced does not work with --redlock: independent servers count separately",
        ));
    }
    if args.kind != Kind::REENTRANT && redis.redlock {
        return Err(Failure::usage(
            "--kind does not work with --redlock: only a reentrant lock exists on several servers",
        ));
    }
    Ok(())
}

/// Acquires the lock. Fails if the wait ends first.
pub(super) fn acquire(
    args: &LockArgs,
    redis: &RedisArgs,
    signals: &Signals,
    reporter: Reporter,
) -> Result<Waited> {
    let clients = connect::clients(redis, Some(args.lease))?;
    reporter.step(format!("waiting for lock {:?}", args.key));
    let asked = Moment::now();
    let wait = if args.no_wait {
        Duration::ZERO
    } else {
        args.wait.unwrap_or(Duration::MAX)
    };
    let line = WaitingLine::start(args, &clients, reporter);
    let acquired = Held::acquire(args, redis, &clients, wait, &signals.interrupt, reporter);
    match acquired {
        // What comes next must not wait for a request of the line.
        Ok(Some(_)) => line.detach(),
        // The end of its thread lets the clients end, which clean up first.
        _ => drop(line),
    }
    if let Some(signal) = signals.ended_the_wait() {
        reporter.step(format!("signal {signal} ended the wait"));
        // The lock may have been acquired at the last moment. Its guard releases it.
        drop(acquired);
        return Ok(Waited::Signal(signal));
    }
    let held = acquired?.ok_or_else(|| {
        let error = Error::HeldByAnother {
            lock: args.key.clone(),
            waited: Moment::now().since(asked),
        };
        Failure::held_by_another(args.conflict_exit_code, error)
    })?;
    reporter.step(format!("acquired lock {:?}", args.key));
    Ok(Waited::Acquired(held))
}
