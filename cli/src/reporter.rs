//! Messages on standard error.

use std::fmt;
use std::io;

use super::stderr;

/// Which messages the user wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reporter {
    quiet: bool,
    verbose: bool,
}

impl Reporter {
    /// From the options `--quiet` and `--verbose`. If `--verbose` is given twice, the log of the
    /// library goes to standard error, too.
    pub(super) fn new(quiet: bool, verbose: u8) -> Self {
        if verbose > 1 {
            // It fails only if there is a logger already, and there is none.
            let _ = tracing_subscriber::fmt()
                .with_writer(|| Log)
                .with_max_level(tracing::Level::TRACE)
                .try_init();
        }
        Self {
            quiet,
            verbose: verbose > 0,
        }
    }

    pub(super) fn is_quiet(self) -> bool {
        self.quiet
    }

    /// A step of the work, with `--verbose`.
    pub(super) fn step(self, what: impl fmt::Display) {
        if self.verbose {
            say(what);
        }
    }

    /// An error that the exit status does not report. `--quiet` does not suppress it.
    pub(super) fn warning(self, what: impl fmt::Display) {
        say(what);
    }

    /// Information, without `--quiet`.
    pub(super) fn remark(self, what: impl fmt::Display) {
        if !self.quiet {
            say(what);
        }
    }
}

/// Writes one line that begins with the name of the program.
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
