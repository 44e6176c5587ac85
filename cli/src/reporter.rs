//! Messages on standard error. Which of them are written is set once for the process, as for a log.

use std::fmt;
use std::io;
use std::sync::OnceLock;

use super::stderr;

/// The options `--quiet` and `--verbose`.
static WANTED: OnceLock<(bool, bool)> = OnceLock::new();

/// Sets which messages the user wants. If `--verbose` is given twice, the log of the library goes
/// to standard error, too.
pub(super) fn set(quiet: bool, verbose: u8) {
    let _ = WANTED.set((quiet, verbose > 0));
    if verbose > 1 {
        // It fails only if there is a logger already, and there is none.
        let _ = tracing_subscriber::fmt()
            .with_writer(|| Log)
            .with_max_level(tracing::Level::TRACE)
            .try_init();
    }
}

pub(super) fn is_quiet() -> bool {
    WANTED.get().is_some_and(|(quiet, _)| *quiet)
}

pub(super) fn is_verbose() -> bool {
    WANTED.get().is_some_and(|(_, verbose)| *verbose)
}

/// Writes a step of the work, with `--verbose`.
pub(super) fn step(what: impl fmt::Display) {
    if is_verbose() {
        say(what);
    }
}

/// Writes information, without `--quiet`.
pub(super) fn remark(what: impl fmt::Display) {
    if !is_quiet() {
        say(what);
    }
}

/// Writes one line that begins with the name of the program. An error that the exit status does not
/// report is written also with `--quiet`.
pub(super) fn say(what: impl fmt::Display) {
    let line = format!("leasehold: {}\n", one_line(&what.to_string()));
    stderr::write(line.into_bytes());
}

/// The writer of the library's log. Each line arrives in one piece.
struct Log;

impl io::Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        stderr::write(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The text as one line without control characters. Servers can send any text.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace(char::is_control, "?")
}
