//! Looks at Redis on a thread of its own, so that keys and signals are heard while a server is
//! silent.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::scan::Scan;

#[derive(Debug)]
pub(super) struct Scanner {
    /// `None` only while it ends.
    orders: Option<Sender<()>>,
    seen: Receiver<Scan>,
    /// Something is to be read as soon as something was seen, or when the thread has ended.
    bell: UnixStream,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Scanner {
    /// `look` is called on the thread; it ends early once what it is given says so.
    pub(super) fn start(
        mut look: impl FnMut(&dyn Fn() -> bool) -> Scan + Send + 'static,
    ) -> io::Result<Self> {
        let (bell, mut ringer) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let (orders, ordered) = bounded(1);
        let (sender, seen) = bounded(1);
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let thread = Builder::new()
            .name("leasehold-scanner".into())
            .spawn(move || {
                for () in ordered {
                    let found = look(&|| stop.load(Ordering::Relaxed));
                    if sender.send(found).is_err() || ringer.write_all(&[0]).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            orders: Some(orders),
            seen,
            bell,
            stopped,
            thread: Some(thread),
        })
    }

    /// Has it look once, if it does not already.
    pub(super) fn look(&self) {
        if let Some(orders) = &self.orders {
            let _ = orders.try_send(());
        }
    }

    /// What it saw last, if that is new. An error if it will see nothing any more.
    pub(super) fn seen(&mut self) -> io::Result<Option<Scan>> {
        let mut rung = [0; 64];
        // Whatever is left there rings again, and so does the end.
        match self.bell.read(&mut rung) {
            Ok(0) => return Err(io::Error::other("the thread that looks has ended")),
            Ok(_) => {}
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(self.seen.try_recv().ok())
    }

    /// Has it ask nobody any more but for what is under way.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Nothing is to be read yet.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

impl AsFd for Scanner {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Waits for the one question that may be under way, which has its time-out.
impl Drop for Scanner {
    fn drop(&mut self) {
        self.stop();
        self.orders = None;
        // It may be about to tell.
        let _ = self.seen.try_recv();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use crate::watch::wait;

    fn bell_of(scanner: &Scanner) {
        let ready = wait::readable(&[scanner.as_fd()], Moment::NEVER).unwrap();
        assert!(ready[0]);
    }

    #[test]
    fn what_was_seen_rings_once() {
        let mut scanner = Scanner::start(|_| Scan::default()).unwrap();
        assert!(scanner.seen().unwrap().is_none());
        scanner.look();
        bell_of(&scanner);
        assert!(scanner.seen().unwrap().is_some());
        assert!(scanner.seen().unwrap().is_none());
    }

    /// It would ring for ever.
    #[test]
    fn a_thread_that_panicked_is_an_error() {
        let mut scanner = Scanner::start(|_| std::panic::resume_unwind(Box::new(()))).unwrap();
        scanner.look();
        bell_of(&scanner);
        assert!(scanner.seen().is_err());
    }
}
