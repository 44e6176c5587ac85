//! What ends the view from outside, or changes its size.

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
    /// Something is to be read whenever one comes.
    bell: UnixStream,
    /// The last that ends the view; 0: none came.
    ending: Arc<AtomicUsize>,
    /// The next one ends the program.
    come: Arc<AtomicBool>,
    registered: Vec<SigId>,
}

impl Signals {
    /// The first that ends the view is for the view, which has a terminal to leave in order; a
    /// second one ends the program wherever it is.
    pub(super) fn catch() -> io::Result<Self> {
        let (bell, ringer) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let ending = Arc::new(AtomicUsize::new(0));
        let come = Arc::new(AtomicBool::new(false));
        let mut registered = Vec::new();
        for signal in ENDING {
            registered.push(flag::register_conditional_default(
                signal,
                Arc::clone(&come),
            )?);
            registered.push(flag::register(signal, Arc::clone(&come))?);
            let number = usize::try_from(signal).unwrap_or(0);
            registered.push(flag::register_usize(signal, Arc::clone(&ending), number)?);
            registered.push(pipe::register(signal, ringer.try_clone()?)?);
        }
        registered.push(pipe::register(SIGWINCH, ringer)?);
        Ok(Self {
            bell,
            ending,
            come,
            registered,
        })
    }

    /// The terminal is in order: from here on the next signal ends the program wherever it is.
    pub(super) fn let_go(&self) {
        self.come.store(true, Ordering::Relaxed);
    }

    /// Reads what rang; the signal that ends the view, if one came.
    pub(super) fn ending(&mut self) -> Option<i32> {
        let mut rung = [0; 64];
        // Whatever is left there rings again.
        let _ = self.bell.read(&mut rung);
        let signal = self.ending.load(Ordering::Relaxed);
        i32::try_from(signal).ok().filter(|&signal| signal != 0)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}

/// Ends this process as the signal would have done.
pub(super) fn end_by(signal: i32) -> io::Result<()> {
    emulate_default_handler(signal)
}
