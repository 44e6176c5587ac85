//! `leasehold hold`: holds a lock until standard input ends. Its content is ignored.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, select};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};

use super::held::{self, Held};
use super::job::signalled;
use super::signals::{Signals, ends_the_wait};
use crate::args::{HoldArgs, RedisArgs};
use crate::name::shown;
use crate::outcome::{Failure, OUTPUT, Result, UNAVAILABLE};
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
    let device = |file: &str| {
        let file = fs::metadata(file).ok()?;
        file.file_type().is_char_device().then(|| file.rdev())
    };
    let input = device("/dev/stdin");
    if input.is_some() && input == device("/dev/null") {
        return Err(Failure::usage(
            "standard input is /dev/null, so the hold would end at once; in a script, write: \
             mkfifo in out; leasehold hold KEY <in >out & exec 3>in; to hold a lock until a \
             signal: leasehold run KEY -- sleep infinity",
        ));
    }
    Ok(())
}

/// Prints the line, and waits for the end of the input, for a loss, or for a signal, which is
/// returned. Fails if the line cannot be printed: no process would know of the lock.
fn await_end(held: &Held, signals: &Signals) -> Result<Option<i32>> {
    let ended = print_and_read(held)?;
    loop {
        select! {
            recv(signals.received) -> signal => match signal {
                Ok(signal) if !ends_the_wait(signal) => {}
                // After an error its thread has ended, so nothing would end the hold.
                signal => return Ok(signal.ok()),
            },
            recv(ended) -> result => return result.unwrap_or(Ok(())).map(|()| None),
            recv(held.lost()) -> _ => return Ok(None),
        }
    }
}

/// Prints the line and reads standard input to its end, on a thread of its own, because both can
/// block. The result is received at the end of the input, or when the line cannot be printed. The
/// thread ends with the process.
fn print_and_read(held: &Held) -> Result<Receiver<Result<()>>> {
    let token = held.token().map(|token| format!(" (token {token})"));
    let line = format!("held {}{}\n", shown(held.name()), token.unwrap_or_default());
    let (sender, ended) = bounded(1);
    let work = move || {
        stderr::write_from_the_background();
        let printed = output::print(line.as_bytes());
        let printed = printed.and_then(|is_read| match is_read {
            true => Ok(()),
            false => Err(Failure::new(
                OUTPUT,
                "standard output: its reader has ended",
            )),
        });
        if printed.is_ok() {
            read_all();
        }
        let _ = sender.send(printed);
    };
    let thread = spawn("input", work);
    thread.map_err(|error| Failure::new(UNAVAILABLE, format!("no thread: {error}")))?;
    Ok(ended)
}

/// Reads standard input to its end.
fn read_all() {
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
}
