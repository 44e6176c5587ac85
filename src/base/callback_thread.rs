//! A thread that calls code of the application, which may block, panic, or drop the last client.

use std::convert::Infallible;
use std::io;
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::base::Process;

/// The owner's handle of such a thread.
///
/// It is never joined, because it ends after the destructors of the application's thread-local
/// variables. The owner waits for the end of its body instead, and not longer than it may.
#[derive(Debug)]
pub(crate) struct CallbackThread {
    thread: ThreadId,
    /// Disconnected at the end of the body.
    pub(crate) done: Receiver<Infallible>,
    process: Process,
}

impl CallbackThread {
    /// `spawn` starts the thread, whose body keeps the sender until its end.
    pub(crate) fn start(
        spawn: impl FnOnce(Sender<Infallible>) -> io::Result<JoinHandle<()>>,
    ) -> io::Result<Self> {
        let (sender, done) = bounded(0);
        let thread = spawn(sender)?;
        Ok(Self {
            thread: thread.thread().id(),
            done,
            process: Process::current(),
        })
    }

    /// Calls `stop`, which makes the body end and returns how long to wait for that.
    pub(crate) fn end(&mut self, stop: impl FnOnce() -> Duration) {
        if !self.process.is_current() {
            // A forked child does not have the thread, and the mutexes may be locked.
            let never = crossbeam_channel::never();
            std::mem::forget(std::mem::replace(&mut self.done, never));
            return;
        }
        let longest = stop();
        // The code that the thread calls may drop the client.
        if std::thread::current().id() != self.thread {
            let _ = self.done.recv_timeout(longest);
        }
    }
}
