//! Standard error, written by a thread of its own.
//!
//! On a terminal, the last line can be one that is replaced later ([`show`]).
//!
//! A write can block: if the reader of a pipe does not read, or if Ctrl-S halts the terminal. The
//! threads that hold a lock must not wait for it.

use std::io::{Write, stderr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{getpgrp, tcgetpgrp};

use super::spawn;

/// How many pieces can wait to be written. Further ones are dropped.
const WAITING: usize = 4_096;

/// How long the end of the program waits for room for the last piece, and then for the pieces that
/// are left.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// How long [`end_lines`] waits for room for the last piece, and then for the terminal.
const ERASE_TIMEOUT: Duration = Duration::from_millis(250);

/// To the beginning of the line, and erases it.
const ERASE_LINE: &[u8] = b"\r\x1b[K";

/// What the thread writes.
#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    /// A line that is replaced or erased later.
    Line(Vec<u8>),
    /// Erases the line. The sender is dropped when that is done.
    End(Sender<()>),
}

/// To the thread, which starts with the first piece; `None` if it could not be started.
static PIECES: OnceLock<Option<Sender<Piece>>> = OnceLock::new();

/// True if no more lines are written: set by [`end_lines`].
static LINES_ENDED: AtomicBool = AtomicBool::new(false);

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

/// Shows a line on a terminal until the next line or text. The line must fit into a line of the
/// terminal. Never blocks; a failure is ignored.
pub(super) fn show(line: String) {
    pieces().map(|pieces| pieces.try_send(Piece::Line(line.into_bytes())));
}

/// Erases the line of [`show`], if there is one, and ignores those that come later. Waits until
/// that is done, but not for long.
pub(super) fn end_lines() {
    LINES_ENDED.store(true, Ordering::SeqCst);
    wait(ERASE_TIMEOUT);
}

/// Waits until all is written, but not for long.
pub(super) fn finish() {
    wait(FINISH_TIMEOUT);
}

fn wait(timeout: Duration) {
    let (writing, written) = bounded(0);
    if let Some(Some(pieces)) = PIECES.get()
        && pieces.send_timeout(Piece::End(writing), timeout).is_ok()
    {
        let _ = written.recv_timeout(timeout);
    }
}

fn write_pieces(pieces: Receiver<Piece>) {
    write_from_the_background();
    let mut line_is_shown = false;
    for piece in pieces {
        let is_line = matches!(piece, Piece::Line(_));
        if is_line && LINES_ENDED.load(Ordering::SeqCst) {
            continue;
        }
        // In the background, the last line is the shell's.
        if std::mem::replace(&mut line_is_shown, is_line) && is_in_foreground() {
            let _ = stderr().lock().write_all(ERASE_LINE);
        }
        match piece {
            Piece::Text(text) | Piece::Line(text) => drop(stderr().lock().write_all(&text)),
            Piece::End(writing) => drop(writing),
        }
    }
}

/// Blocks the signal that a terminal with `stty tostop` sends to a background process that writes.
/// The signal would stop the whole process.
pub(super) fn write_from_the_background() {
    let _ = SigSet::from(Signal::SIGTTOU).thread_block();
}

/// True if the terminal's last line may be one of this process. A terminal without job control has
/// no background.
pub(super) fn is_in_foreground() -> bool {
    tcgetpgrp(stderr()).map_or(true, |group| group == getpgrp())
}
