//! Waiting for several things at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::clock::Moment;

/// Longer waits are several.
const LONGEST: Duration = Duration::from_secs(60);

/// Which of these can be read, or are at their end; none if it is time, or a signal came.
pub(super) fn readable(sources: &[BorrowedFd<'_>], until: Moment) -> io::Result<Vec<bool>> {
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

/// Waits until it is time, or until nobody reads standard output any more.
pub(super) fn reader_is_gone(until: Moment) -> io::Result<bool> {
    let out = io::stdout();
    while !until.is_past() {
        // That there is an error is always told.
        let mut out = [PollFd::new(out.as_fd(), PollFlags::empty())];
        wait(&mut out, until)?;
        if out[0].any().unwrap_or(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn wait(sources: &mut [PollFd<'_>], until: Moment) -> io::Result<()> {
    // Milliseconds: rounded down it would be asked again and again in the last of them.
    let left = until.left().min(LONGEST) + Duration::from_millis(1);
    let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
    match poll(sources, left) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
