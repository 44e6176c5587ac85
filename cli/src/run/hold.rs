//! `leasehold hold`: holds a lock until standard input ends.

use std::process::ExitCode;

use crossbeam_channel::select;

use super::acquire::{self, Waited};
use super::held::Held;
use super::input::Input;
use super::signals::{Signals, ends_the_wait};
use super::{heartbeat, signalled};
use crate::args::{HoldArgs, RedisArgs};
use crate::outcome::{Failure, Result};
use crate::output;
use crate::reporter::Reporter;
use crate::row::shown;
use leasehold::Error;

/// Acquires the lock, tells so on standard output, and releases the lock when the input ends.
pub(crate) fn hold(args: &HoldArgs, redis: &RedisArgs, reporter: Reporter) -> Result<ExitCode> {
    let lock = &args.lock;
    acquire::check(lock, redis)?;
    let signals = Signals::catch()?;
    let (held, _line) = match acquire::acquire(lock, redis, &signals, reporter)? {
        Waited::Acquired(held, line) => (held, line),
        Waited::Signal(signal) => return Ok(signalled(signal)),
    };
    output::print(line(&held).as_bytes())?;
    let signal = std::thread::scope(|scope| {
        let _heartbeat = heartbeat::start(scope, &held, heartbeat::beat(lock.lease))?;
        await_end(&held, &signals)
    })?;
    match held.release(None) {
        Ok(()) => reporter.step(format!("released lock {:?}", lock.key)),
        Err(error @ (Error::Lost { .. } | Error::NotHeld { .. })) => return Err(error.into()),
        Err(error) => reporter.warning(Failure::from(error)),
    }
    Ok(signal.map_or(ExitCode::SUCCESS, signalled))
}

fn line(held: &Held) -> String {
    let name = shown(held.name());
    match held.token() {
        Some(token) => format!("held {name} (token {token})\n"),
        None => format!("held {name}\n"),
    }
}

/// Waits for the end of the input, or for a signal, which is returned. Fails if the lock is lost.
fn await_end(held: &Held, signals: &Signals) -> Result<Option<i32>> {
    let input = Input::watch()?;
    loop {
        // The reason of a loss is in its error.
        held.check()?;
        select! {
            recv(signals.received) -> signal => match signal {
                Ok(signal) if ends_the_wait(signal) => return Ok(Some(signal)),
                Ok(_) => {}
                // Its thread has ended, so nothing would end the hold.
                Err(_) => return Ok(None),
            },
            recv(input.ended) -> _ => return Ok(None),
            recv(held.lost()) -> _ => held.check()?,
        }
    }
}
