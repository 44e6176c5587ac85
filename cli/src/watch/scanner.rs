//! Scans the servers on a thread of its own, so that the view handles keys and signals while a
//! server does not reply.

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
    /// `None` only while the scanner ends.
    requests: Option<Sender<()>>,
    results: Receiver<Scan>,
    /// Readable when a result is there, or when the thread has ended.
    ready: UnixStream,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Scanner {
    /// Starts the thread, which calls `scan`. The argument of `scan` returns true when it must
    /// stop.
    pub(super) fn start(
        mut scan: impl FnMut(&dyn Fn() -> bool) -> Scan + Send + 'static,
    ) -> io::Result<Self> {
        let (ready, mut signal) = UnixStream::pair()?;
        ready.set_nonblocking(true)?;
        let (requests, requested) = bounded(1);
        let (sender, results) = bounded(1);
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let thread = Builder::new()
            .name("leasehold-scanner".into())
            .spawn(move || {
                for () in requested {
                    let found = scan(&|| stop.load(Ordering::Relaxed));
                    if sender.send(found).is_err() || signal.write_all(&[0]).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            requests: Some(requests),
            results,
            ready,
            stopped,
            thread: Some(thread),
        })
    }

    /// Starts a scan, unless one is under way.
    pub(super) fn start_scan(&self) {
        if let Some(requests) = &self.requests {
            let _ = requests.try_send(());
        }
    }

    /// The result of the last scan, once. Fails if the thread has ended.
    pub(super) fn result(&mut self) -> io::Result<Option<Scan>> {
        let mut bytes = [0; 64];
        // Bytes that are left, and the end, make it readable again.
        match self.ready.read(&mut bytes) {
            Ok(0) => return Err(io::Error::other("the thread that scans has ended")),
            Ok(_) => {}
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(self.results.try_recv().ok())
    }

    /// Makes the thread send no further request.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// True if there is nothing to read yet.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

impl AsFd for Scanner {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

/// Waits for the request that may be under way, which has a timeout.
impl Drop for Scanner {
    fn drop(&mut self) {
        self.stop();
        self.requests = None;
        // The thread may wait to send its result.
        let _ = self.results.try_recv();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use crate::wait;

    fn await_readable(scanner: &Scanner) {
        let ready = wait::readable(&[scanner.as_fd()], Moment::NEVER).unwrap();
        assert!(ready[0]);
    }

    #[test]
    fn a_result_is_reported_once() {
        let mut scanner = Scanner::start(|_| Scan::default()).unwrap();
        assert!(scanner.result().unwrap().is_none());
        scanner.start_scan();
        await_readable(&scanner);
        assert!(scanner.result().unwrap().is_some());
        assert!(scanner.result().unwrap().is_none());
    }

    /// Its end of the socket would stay readable.
    #[test]
    fn a_thread_that_panicked_is_an_error() {
        let mut scanner = Scanner::start(|_| std::panic::resume_unwind(Box::new(()))).unwrap();
        scanner.start_scan();
        await_readable(&scanner);
        assert!(scanner.result().is_err());
    }
}
