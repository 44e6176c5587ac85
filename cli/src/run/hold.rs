//! `leasehold hold`: holds a lock until standard input ends.

use std::process::ExitCode;
use std::thread::Builder;

use crossbeam_channel::{Receiver, bounded, never, select};

use super::acquire::{self, Waited};
use super::held::Held;
use super::signals::{Signals, ends_the_wait};
use super::{input, release, signalled};
use crate::args::{HoldArgs, RedisArgs};
use crate::name::shown;
use crate::outcome::{Failure, OUTPUT, Result};
use crate::reporter::Reporter;
use crate::{output, stderr};

/// Acquires the lock, prints a line on standard output, and releases the lock when the input ends.
pub(crate) fn hold(args: &HoldArgs, redis: &RedisArgs, reporter: Reporter) -> Result<ExitCode> {
    let lock = &args.lock;
    acquire::check(lock, redis)?;
    input::check()?;
    let signals = Signals::catch()?;
    let held = match acquire::acquire(lock, redis, &signals, reporter)? {
        Waited::Acquired(held) => held,
        Waited::Signal(signal) => return Ok(signalled(signal)),
    };
    let signal = await_end(&held, &signals);
    // Nothing else reports a loss, so this process ends at once.
    held.check().unwrap_or_else(|loss| end(loss.into()));
    let signal = signal?;
    release(held, None, false, reporter)?;
    Ok(signal.map_or(ExitCode::SUCCESS, signalled))
}

/// Reports the failure and ends the process. What is left in Redis, such as the share of a Redlock,
/// ends with its lease.
fn end(failure: Failure) -> ! {
    let status = failure.status.into();
    failure.report();
    stderr::finish();
    std::process::exit(status)
}

/// Prints the line on a thread of its own, because a write can block. The result is received when
/// the line is written. The thread ends with the process.
fn print(line: String) -> Result<Receiver<Result<()>>> {
    let (sender, printed) = bounded(1);
    let thread = Builder::new().name("leasehold-output".into());
    let thread = thread.spawn(move || {
        stderr::write_from_the_background();
        let result = output::print(line.as_bytes()).and_then(|is_read| match is_read {
            true => Ok(()),
            false => Err(Failure::new(
                OUTPUT,
                "standard output: its reader has ended",
            )),
        });
        let _ = sender.send(result);
    });
    thread.map_err(Failure::no_thread)?;
    Ok(printed)
}

fn line(held: &Held) -> String {
    let name = shown(held.name());
    match held.token() {
        Some(token) => format!("held {name} (token {token})\n"),
        None => format!("held {name}\n"),
    }
}

/// Prints the line, and waits for the end of the input, for a loss, or for a signal, which is
/// returned. Fails if the line cannot be printed: no process would know of the lock.
fn await_end(held: &Held, signals: &Signals) -> Result<Option<i32>> {
    let mut printed = print(line(held))?;
    let mut input_ended = never();
    loop {
        select! {
            recv(signals.received) -> signal => match signal {
                Ok(signal) if ends_the_wait(signal) => return Ok(Some(signal)),
                Ok(_) => {}
                // Its thread has ended, so nothing would end the hold.
                Err(_) => return Ok(None),
            },
            recv(printed) -> result => {
                result.unwrap_or(Ok(()))?;
                printed = never();
                input_ended = input::watch()?;
            }
            recv(input_ended) -> _ => return Ok(None),
            recv(held.lost()) -> _ => return Ok(None),
        }
    }
}
