//! No test takes for ever, even if the library does.

use std::sync::Arc;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

use super::process;
use super::timing::LONGEST_TEST;

/// Kills the server of a test that takes for ever: without it every call fails in its time, and so
/// does the test.
pub struct Fuse {
    /// Of the server as it runs now. Locked while a signal is sent, so that it reaches nobody else.
    pid: Arc<Mutex<Option<u32>>>,
    _alive: Sender<()>,
}

impl Fuse {
    /// Without a server at first it has only its second stage, which ends this process.
    pub fn of(pid: Option<u32>) -> Self {
        let (alive, ended) = bounded(0);
        let pid = Arc::new(Mutex::new(pid));
        let burning = Arc::clone(&pid);
        std::thread::spawn(move || {
            if ended.recv_timeout(LONGEST_TEST.get()) == Err(RecvTimeoutError::Timeout) {
                if let Some(pid) = *burning.lock() {
                    process::signal(pid, "KILL");
                }
                if ended.recv_timeout(LONGEST_TEST.get()) == Err(RecvTimeoutError::Timeout) {
                    eprintln!("a test hangs although its server is dead; this ends them all");
                    std::process::abort();
                }
            }
        });
        Self { pid, _alive: alive }
    }

    /// The server is another process now, or none.
    pub fn guards(&self, pid: Option<u32>) {
        *self.pid.lock() = pid;
    }
}
