//! Standard error, which nobody has to wait for: a thread of its own writes there.
//!
//! A pipe that nobody reads and a terminal that was halted by Ctrl-S take nothing for as long as
//! they like. Whoever holds a lock has something to do meanwhile.

use std::io::{Write, stderr};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

/// How many pieces wait to be written; what comes then is dropped.
const WAITING: usize = 4_096;

/// How long the end of the program waits for the last of them.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// From the first piece to [`finish`].
static WRITER: Mutex<Option<Writer>> = Mutex::new(None);

#[derive(Debug)]
struct Writer {
    pieces: Sender<Vec<u8>>,
    /// Closed when all is written.
    written: Receiver<()>,
    thread: JoinHandle<()>,
}

/// In one piece: others write to the same place. Never waits; that nobody can be told is no
/// failure.
pub(super) fn write(piece: Vec<u8>) {
    let pieces = {
        let mut writer = WRITER.lock();
        if writer.is_none() {
            *writer = start();
        }
        writer.as_ref().map(|writer| writer.pieces.clone())
    };
    if let Some(pieces) = pieces {
        let _ = pieces.try_send(piece);
    } else {
        let _ = stderr().lock().write_all(&piece);
    }
}

/// Waits until all is written, but not for long.
pub(super) fn finish() {
    let Some(writer) = WRITER.lock().take() else {
        return;
    };
    drop(writer.pieces);
    let halted = writer.written.recv_timeout(LAST_WORDS) == Err(RecvTimeoutError::Timeout);
    // A thread that is halted ends with the process.
    if !halted {
        let _ = writer.thread.join();
    }
}

fn start() -> Option<Writer> {
    let (pieces, waiting) = bounded::<Vec<u8>>(WAITING);
    let (writing, written) = bounded(0);
    let thread = Builder::new().name("leasehold-stderr".into());
    let thread = thread.spawn(move || {
        let _writing: Sender<()> = writing;
        write_from_the_background();
        for piece in waiting {
            let _ = stderr().lock().write_all(&piece);
        }
    });
    thread.ok().map(|thread| Writer {
        pieces,
        written,
        thread,
    })
}

/// A terminal may be set to stop whoever writes to it from the background (`stty tostop`). That
/// would stop all of this process, but not a thread that blocks the signal.
#[cfg(unix)]
fn write_from_the_background() {
    use nix::sys::signal::{SigSet, Signal};

    let _ = SigSet::from(Signal::SIGTTOU).thread_block();
}

#[cfg(not(unix))]
fn write_from_the_background() {}
