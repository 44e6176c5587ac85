//! Standard error, written by a thread of its own.
//!
//! A write can block: if the reader of a pipe does not read, or if Ctrl-S halts the terminal. The
//! threads that hold a lock must not wait for it.

use std::io::{Write, stderr};
use std::sync::OnceLock;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use nix::sys::signal::{SigSet, Signal};

use super::spawn;

/// How many pieces can wait to be written. Further ones are dropped.
const WAITING: usize = 4_096;

/// How long the end of the program waits for room for the last piece, and then for the pieces that
/// are left.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// What the thread writes.
#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    /// The sender is dropped when all pieces before are written.
    End(Sender<()>),
}

/// To the thread, which starts with the first piece; `None` if it could not be started.
static PIECES: OnceLock<Option<Sender<Piece>>> = OnceLock::new();

fn pieces() -> Option<&'static Sender<Piece>> {
    let start = || {
        let (pieces, waiting) = bounded(WAITING);
        let thread = spawn("stderr", move || write_pieces(waiting));
        thread.is_ok().then_some(pieces)
    };
    PIECES.get_or_init(start).as_ref()
}

/// Writes the piece at once, so that output of other processes cannot split it. Never blocks if
/// there is a thread; a failure is ignored.
pub(super) fn write(piece: Vec<u8>) {
    match pieces() {
        Some(pieces) => drop(pieces.try_send(Piece::Text(piece))),
        None => drop(stderr().lock().write_all(&piece)),
    }
}

/// Waits until all is written, but not for long.
pub(super) fn finish() {
    let (writing, written) = bounded(0);
    if let Some(Some(pieces)) = PIECES.get()
        && pieces
            .send_timeout(Piece::End(writing), FINISH_TIMEOUT)
            .is_ok()
    {
        let _ = written.recv_timeout(FINISH_TIMEOUT);
    }
}

fn write_pieces(pieces: Receiver<Piece>) {
    write_from_the_background();
    for piece in pieces {
        match piece {
            Piece::Text(text) => drop(stderr().lock().write_all(&text)),
            Piece::End(writing) => drop(writing),
        }
    }
}

/// Blocks the signal that a terminal with `stty tostop` sends to a background process that writes.
/// The signal would stop the whole process.
pub(super) fn write_from_the_background() {
    let _ = SigSet::from(Signal::SIGTTOU).thread_block();
}
