//! What goes to standard output. A reader that is gone, as of `leasehold list | head -1`, is no
//! failure.

use std::io::{self, IsTerminal, Write};

use super::outcome::{Failure, OUTPUT, Result};

/// Writes all of it at once; whether there is still somebody who reads.
pub(super) fn print(text: &[u8]) -> Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(OUTPUT, format!("standard output: {error}"))),
    }
}

/// Columns and lines of the terminal; the usual ones where it does not tell.
pub(super) fn size() -> (u16, u16) {
    let told = crossterm::terminal::size().ok();
    told.filter(|&(width, height)| width > 0 && height > 0)
        .unwrap_or((80, 24))
}

/// Whether a person reads standard output.
pub(super) fn is_seen() -> bool {
    io::stdout().is_terminal()
}
