//! Notices the end of standard input. Its content is ignored.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::thread::{self, Builder};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};

use crate::outcome::{Failure, Result};

/// The time between two attempts to read from a terminal that another process group has.
const BACKGROUND: Duration = Duration::from_secs(1);

/// Fails if standard input is `/dev/null`, as for jobs of cron and systemd. A standard input that
/// was closed when this process started is that, too.
pub(super) fn check() -> Result<()> {
    let device = |metadata: Metadata| {
        let is_device = metadata.file_type().is_char_device();
        is_device.then(|| metadata.rdev())
    };
    let input = io::stdin().as_fd().try_clone_to_owned();
    let input = input.and_then(|input| File::from(input).metadata());
    let null = std::fs::metadata("/dev/null");
    match (input.map(device), null.map(device)) {
        (Ok(Some(input)), Ok(Some(null))) if input == null => Err(Failure::usage(
            "standard input is /dev/null, so the hold would end at once; to hold a lock until a \
             signal, write: leasehold run KEY -- sleep infinity",
        )),
        _ => Ok(()),
    }
}

/// Reads standard input on a thread of its own, to its end. The returned channel is disconnected
/// then. A read can block, so no thread joins this one; it ends with the process.
pub(super) fn watch() -> Result<Receiver<()>> {
    let (reading, ended) = bounded(0);
    let thread = Builder::new().name("leasehold-input".into());
    let thread = thread.spawn(move || {
        let _reading: Sender<()> = reading;
        // In the background, a read fails then and does not stop this process.
        let _ = SigSet::from(Signal::SIGTTIN).thread_block();
        while goes_on() {}
    });
    thread.map_err(Failure::no_thread)?;
    Ok(ended)
}

/// Waits for the next part of the input, and drops it. False if the input has ended.
fn goes_on() -> bool {
    let input = io::stdin();
    match nix::unistd::read(input.as_fd(), &mut [0; 4096]) {
        Ok(length) => length > 0,
        Err(Errno::EINTR) => true,
        // Another process made it non-blocking.
        Err(Errno::EAGAIN) => {
            let mut input = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
            matches!(
                poll(&mut input, PollTimeout::NONE),
                Ok(_) | Err(Errno::EINTR)
            )
        }
        // Another process group has the terminal.
        Err(Errno::EIO) => {
            thread::sleep(BACKGROUND);
            true
        }
        Err(_) => false,
    }
}
