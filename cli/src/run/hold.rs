//! `leasehold hold`: holds a lock until standard input ends. Its content is ignored.

use std::io;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, never, select};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::{FileStat, SFlag, fstat, stat};

use super::held::{self, Held};
use super::job::signalled;
use super::signals::{Signals, ends_the_wait};
use crate::args::{HoldArgs, RedisArgs};
use crate::name::shown;
use crate::outcome::{Failure, OUTPUT, Result};
use crate::{output, spawn, stderr};

/// The time between two attempts to read from an input that cannot be read now.
const PAUSE: Duration = Duration::from_secs(1);

/// Acquires the lock, prints a line on standard output, and releases the lock when the input ends.
pub(crate) fn hold(args: &HoldArgs, redis: &RedisArgs) -> Result<u8> {
    held::check(&args.lock, redis)?;
    check_input()?;
    let signals = Signals::catch()?;
    let held = Held::acquire(&args.lock, redis, &signals)?;
    let signal = await_end(&held, &signals);
    if let Err(loss) = held.check() {
        // Nothing else reports a loss, so this process ends at once. What is left in Redis, such as
        // the share of a Redlock, ends with its lease.
        let failure = Failure::from(loss);
        let status = failure.status.into();
        failure.report();
        stderr::finish();
        std::process::exit(status)
    }
    let status = signal?.map_or(0, signalled);
    held.release(None, false)?;
    Ok(status)
}

/// Fails if standard input is `/dev/null`, as for jobs of cron and systemd. A standard input that
/// was closed when this process started is that, too. Only a character device counts: all regular
/// files have the same device number.
fn check_input() -> Result<()> {
    let device = |file: FileStat| {
        let is_device = file.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFCHR.bits();
        is_device.then_some(file.st_rdev)
    };
    let input = fstat(io::stdin()).ok().and_then(device);
    if input.is_some() && input == stat("/dev/null").ok().and_then(device) {
        return Err(Failure::usage(
            "standard input is /dev/null, so the hold would end at once; to hold a lock until a \
             signal, write: leasehold run KEY -- sleep infinity",
        ));
    }
    Ok(())
}

/// Prints the line, and waits for the end of the input, for a loss, or for a signal, which is
/// returned. Fails if the line cannot be printed: no process would know of the lock.
fn await_end(held: &Held, signals: &Signals) -> Result<Option<i32>> {
    let (mut printed, mut input_ended) = (print(held)?, never());
    loop {
        select! {
            recv(signals.received) -> signal => match signal {
                Ok(signal) if !ends_the_wait(signal) => {}
                // After an error its thread has ended, so nothing would end the hold.
                signal => return Ok(signal.ok()),
            },
            recv(printed) -> result => {
                result.unwrap_or(Ok(()))?;
                printed = never();
                input_ended = watch_input()?;
            }
            recv(input_ended) -> _ => return Ok(None),
            recv(held.lost()) -> _ => return Ok(None),
        }
    }
}

/// Prints the line on a thread of its own, because a write can block. The result is received when
/// the line is written. The thread ends with the process.
fn print(held: &Held) -> Result<Receiver<Result<()>>> {
    let token = held.token().map(|token| format!(" (token {token})"));
    let line = format!("held {}{}\n", shown(held.name()), token.unwrap_or_default());
    let (sender, printed) = bounded(1);
    let print = move || {
        stderr::write_from_the_background();
        let is_read = output::print(line.as_bytes());
        let ended = || Failure::new(OUTPUT, "standard output: its reader has ended");
        let _ = sender.send(is_read.and_then(|is_read| is_read.then_some(()).ok_or_else(ended)));
    };
    spawn("output", print).map_err(Failure::no_thread)?;
    Ok(printed)
}

/// Reads standard input on a thread of its own, to its end. The returned channel is disconnected
/// then. A read can block, so no thread joins this one; it ends with the process.
fn watch_input() -> Result<Receiver<()>> {
    let (reading, ended) = bounded(0);
    let read = move || {
        let _reading: Sender<()> = reading;
        // In the background, a read fails then and does not stop this process.
        let _ = SigSet::from(Signal::SIGTTIN).thread_block();
        while let Err(error) = io::copy(&mut io::stdin().lock(), &mut io::sink()) {
            let error = Errno::from_raw(error.raw_os_error().unwrap_or_default());
            // Another process made the input non-blocking, or another group has the terminal.
            if !matches!(error, Errno::EAGAIN | Errno::EIO) {
                break;
            }
            std::thread::sleep(PAUSE);
        }
    };
    spawn("input", read).map_err(Failure::no_thread)?;
    Ok(ended)
}
