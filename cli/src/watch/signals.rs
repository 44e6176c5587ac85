//! Signals that end the view or change its size.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::low_level::{emulate_default_handler, pipe, unregister};
use signal_hook::{SigId, flag};

const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

#[derive(Debug)]
pub(super) struct Signals {
    /// Readable when a signal has arrived.
    ready: UnixStream,
    /// The last signal that ends the view; 0 if none arrived.
    ending: Arc<AtomicUsize>,
    /// True if the next signal ends the program.
    arrived: Arc<AtomicBool>,
    registered: Vec<SigId>,
}

impl Signals {
    /// The first signal ends the view, which restores the terminal. A second one ends the program
    /// at once.
    pub(super) fn catch() -> io::Result<Self> {
        let (ready, writer) = UnixStream::pair()?;
        ready.set_nonblocking(true)?;
        let ending = Arc::new(AtomicUsize::new(0));
        let arrived = Arc::new(AtomicBool::new(false));
        let mut registered = Vec::new();
        for signal in ENDING {
            registered.push(flag::register_conditional_default(
                signal,
                Arc::clone(&arrived),
            )?);
            registered.push(flag::register(signal, Arc::clone(&arrived))?);
            let number = usize::try_from(signal).unwrap_or(0);
            registered.push(flag::register_usize(signal, Arc::clone(&ending), number)?);
            registered.push(pipe::register(signal, writer.try_clone()?)?);
        }
        registered.push(pipe::register(SIGWINCH, writer)?);
        Ok(Self {
            ready,
            ending,
            arrived,
            registered,
        })
    }

    /// The terminal is restored: from here on the next signal ends the program at once.
    pub(super) fn end_at_once(&self) {
        self.arrived.store(true, Ordering::Relaxed);
    }

    /// The signal that ends the view, if one arrived.
    pub(super) fn ending(&mut self) -> Option<i32> {
        let mut bytes = [0; 64];
        // Bytes that are left make it readable again.
        let _ = self.ready.read(&mut bytes);
        let signal = self.ending.load(Ordering::Relaxed);
        i32::try_from(signal).ok().filter(|&signal| signal != 0)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}

/// Ends this process with the default action of the signal.
pub(super) fn end_by(signal: i32) -> io::Result<()> {
    emulate_default_handler(signal)
}
