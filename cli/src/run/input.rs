//! Tells when standard input ends. What it contains does not matter.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};

use crate::clock::Moment;
use crate::outcome::{Failure, Result, UNAVAILABLE};
use crate::wait;

/// The time between two attempts to read from a terminal that another process group has.
const BACKGROUND: Duration = Duration::from_secs(1);

/// Standard input, which a thread reads. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Input {
    /// Disconnected when the input has ended.
    pub(super) ended: Receiver<()>,
    /// The thread ends when this is closed.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Input {
    pub(super) fn watch() -> Result<Self> {
        let (stop, stopped) = UnixStream::pair().map_err(refused)?;
        let (reading, ended) = bounded(0);
        let thread = Builder::new()
            .name("leasehold-input".into())
            .spawn(move || {
                let _reading: Sender<()> = reading;
                // In the background, a read fails then and does not stop this process.
                let _ = SigSet::from(Signal::SIGTTIN).thread_block();
                // Without a source to wait for, the input counts as ended.
                while let Ok(true) = goes_on(&stopped) {}
            })
            .map_err(refused)?;
        Ok(Self {
            ended,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits for the next part of the input, and drops it. False if the input has ended, or if `stop`
/// is closed.
fn goes_on(stop: &UnixStream) -> io::Result<bool> {
    let input = io::stdin();
    let ready = wait::readable(&[stop.as_fd(), input.as_fd()], Moment::NEVER)?;
    if ready[0] {
        return Ok(false);
    }
    if !ready[1] {
        return Ok(true);
    }
    match nix::unistd::read(input.as_fd(), &mut [0; 4096]) {
        Ok(length) => Ok(length > 0),
        Err(Errno::EINTR | Errno::EAGAIN) => Ok(true),
        // Another process group has the terminal.
        Err(Errno::EIO) => {
            let next = Moment::now().after(BACKGROUND);
            let stopped = wait::readable(&[stop.as_fd()], next)?;
            Ok(!stopped[0])
        }
        Err(error) => Err(error.into()),
    }
}

fn refused(error: io::Error) -> Failure {
    Failure::new(UNAVAILABLE, format!("no thread can be started: {error}"))
}
