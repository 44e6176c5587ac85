//! Waits for several sources at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::clock::Moment;

/// A longer wait is split.
const LONGEST: Duration = Duration::from_secs(60);

/// Which of the sources can be read or have ended; none at `until` or after a signal.
pub(crate) fn readable(sources: &[BorrowedFd<'_>], until: Moment) -> io::Result<Vec<bool>> {
    let wanted = sources.iter();
    let mut sources: Vec<PollFd<'_>> = wanted
        .map(|source| PollFd::new(*source, PollFlags::POLLIN))
        .collect();
    wait(&mut sources, until)?;
    Ok(sources
        .iter()
        .map(|one| one.any().unwrap_or(true))
        .collect())
}

/// Waits until the reader of standard output has ended, or until `until`; true if it has ended.
pub(crate) fn reader_is_gone(until: Moment) -> io::Result<bool> {
    let out = io::stdout();
    while !until.is_past() {
        // `poll` always reports an error, without being asked.
        let mut out = [PollFd::new(out.as_fd(), PollFlags::empty())];
        wait(&mut out, until)?;
        if out[0].any().unwrap_or(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn wait(sources: &mut [PollFd<'_>], until: Moment) -> io::Result<()> {
    // Rounded up to milliseconds: rounded down, it would poll without a pause at the end.
    let left = until.left().min(LONGEST) + Duration::from_millis(1);
    let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
    match poll(sources, left) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
