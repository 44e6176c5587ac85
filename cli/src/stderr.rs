//! Standard error, written by a thread of its own.
//!
//! On a terminal, the last line can be one that is replaced later ([`show`]).
//!
//! A write can block: if the reader of a pipe does not read, or if Ctrl-S halts the terminal. The
//! threads that hold a lock must not wait for it.

use std::io::{Write, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

use super::spawn;

/// How many pieces can wait to be written. Further ones are dropped.
const WAITING: usize = 4_096;

/// How long the end of the program waits for the pieces that are left.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// How long [`end_lines`] waits for the terminal.
const ERASE_TIMEOUT: Duration = Duration::from_millis(250);

/// To the beginning of the line, and erases it.
const ERASE_LINE: &[u8] = b"\r\x1b[K";

/// What the thread writes.
#[derive(Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "only run and hold show a line"))]
enum Piece {
    Text(Vec<u8>),
    /// A line that is replaced or erased later.
    Line(Vec<u8>),
    /// Erases the line. The sender is dropped when that is done.
    Erase(Sender<()>),
}

/// From the first piece to [`finish`].
static WRITER: Mutex<Option<Writer>> = Mutex::new(None);

/// True if no more lines are written: set by [`end_lines`].
static LINES_ENDED: AtomicBool = AtomicBool::new(false);

#[derive(Debug)]
struct Writer {
    pieces: Sender<Piece>,
    /// Disconnected when all is written.
    written: Receiver<()>,
    thread: JoinHandle<()>,
}

/// Writes the piece at once, so that output of other processes cannot split it. Never blocks; a
/// failure is ignored.
pub(super) fn write(piece: Vec<u8>) {
    send(Piece::Text(piece));
}

/// Shows a line on a terminal until the next line or text. The line must fit into a line of the
/// terminal. Never blocks; a failure is ignored.
#[cfg(unix)]
pub(super) fn show(line: String) {
    send(Piece::Line(line.into_bytes()));
}

/// Erases the line of [`show`], if there is one, and ignores those that come later. Waits until
/// that is done, for at most [`ERASE_TIMEOUT`].
#[cfg(unix)]
pub(super) fn end_lines() {
    LINES_ENDED.store(true, Ordering::SeqCst);
    let pieces = WRITER.lock().as_ref().map(|writer| writer.pieces.clone());
    // Without a thread there is no line.
    let Some(pieces) = pieces else {
        return;
    };
    let (erasing, erased) = bounded(0);
    // Without room, the next piece erases the line.
    let _ = pieces.try_send(Piece::Erase(erasing));
    let _ = erased.recv_timeout(ERASE_TIMEOUT);
}

/// Sends a piece to the thread, which is started if there is none. Without a thread, writes text
/// here.
fn send(piece: Piece) {
    let mut writer = WRITER.lock();
    if writer.is_none() {
        *writer = start();
    }
    let pieces = writer.as_ref().map(|writer| writer.pieces.clone());
    // A write can block, and other threads must not wait for it.
    drop(writer);
    match (pieces, piece) {
        (Some(pieces), piece) => drop(pieces.try_send(piece)),
        (None, Piece::Text(text)) => drop(stderr().lock().write_all(&text)),
        (None, _) => {}
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
    let (pieces, waiting) = bounded::<Piece>(WAITING);
    let (writing, written) = bounded(0);
    let write = move || {
        let _writing: Sender<()> = writing;
        write_from_the_background();
        let mut line_is_shown = false;
        for piece in waiting {
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
                Piece::Erase(erasing) => drop(erasing),
            }
        }
    };
    let thread = spawn("stderr", write).ok()?;
    Some(Writer {
        pieces,
        written,
        thread,
    })
}

/// Blocks the signal that a terminal with `stty tostop` sends to a background process that writes.
/// The signal would stop the whole process.
#[cfg(unix)]
pub(super) fn write_from_the_background() {
    use nix::sys::signal::{SigSet, Signal};

    let _ = SigSet::from(Signal::SIGTTOU).thread_block();
}

#[cfg(not(unix))]
fn write_from_the_background() {}

/// True if the terminal's last line may be one of this process. A terminal without job control has
/// no background.
#[cfg(unix)]
pub(super) fn is_in_foreground() -> bool {
    use nix::unistd::{getpgrp, tcgetpgrp};

    tcgetpgrp(stderr()).map_or(true, |group| group == getpgrp())
}

#[cfg(not(unix))]
fn is_in_foreground() -> bool {
    true
}
