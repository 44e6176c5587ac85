//! Standard error, written by a thread of its own.
//!
//! A write can block: if the reader of a pipe does not read, or if Ctrl-S halts the terminal. The
//! threads that hold a lock must not wait for it.

use std::io::{Write, stderr};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

/// How many pieces can wait to be written. Further ones are dropped.
const WAITING: usize = 4_096;

/// How long the end of the program waits for the pieces that are left.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// From the first piece to [`finish`].
static WRITER: Mutex<Option<Writer>> = Mutex::new(None);

#[derive(Debug)]
struct Writer {
    pieces: Sender<Vec<u8>>,
    /// Disconnected when all is written.
    written: Receiver<()>,
    thread: JoinHandle<()>,
}

/// Writes the piece at once, so that output of other processes cannot split it. Never blocks; a
/// failure is ignored.
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

/// Waits until all is written, for at most [`FINISH_TIMEOUT`].
pub(super) fn finish() {
    let Some(writer) = WRITER.lock().take() else {
        return;
    };
    drop(writer.pieces);
    let blocked = writer.written.recv_timeout(FINISH_TIMEOUT) == Err(RecvTimeoutError::Timeout);
    // A thread that is blocked ends with the process.
    if !blocked {
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

/// Blocks the signal that a terminal with `stty tostop` sends to a background process that writes.
/// The signal would stop the whole process.
#[cfg(unix)]
fn write_from_the_background() {
    use nix::sys::signal::{SigSet, Signal};

    let _ = SigSet::from(Signal::SIGTTOU).thread_block();
}

#[cfg(not(unix))]
fn write_from_the_background() {}
