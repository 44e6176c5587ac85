//! What is said on standard error beside failures.

use std::fmt;
use std::io;

use super::args::Args;
use super::stderr;

/// How much a person wants to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reporter {
    quiet: bool,
    verbose: bool,
}

impl Reporter {
    /// As the arguments ask for. What the library logs goes to standard error from here on, if they ask
    /// for that.
    pub(super) fn of(args: &Args) -> Self {
        if args.verbose > 1 {
            // Only a second logger is refused, and there is none.
            let _ = tracing_subscriber::fmt()
                .with_writer(|| Log)
                .with_max_level(tracing::Level::TRACE)
                .try_init();
        }
        Self {
            quiet: args.quiet,
            verbose: args.verbose > 0,
        }
    }

    /// A step of the work, for who asked for them.
    pub(super) fn step(self, what: impl fmt::Display) {
        if self.verbose {
            say(what);
        }
    }

    /// Something that went wrong and that the exit status does not tell: whoever wants quiet wants to know that.
    pub(super) fn warning(self, what: impl fmt::Display) {
        say(what);
    }

    /// What is worth knowing, but not wrong.
    pub(super) fn remark(self, what: impl fmt::Display) {
        if !self.quiet {
            say(what);
        }
    }
}

/// One line that tells whose it is.
pub(super) fn say(what: impl fmt::Display) {
    let line = format!("leasehold: {}\n", one_line(&what.to_string()));
    stderr::write(line.into_bytes());
}

/// Where the library's log goes: each line comes in one piece.
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

/// Without what could drive a terminal: servers say what they like.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace(char::is_control, "?")
}
