//! A limit for the time of each test, even if the library hangs.

use std::sync::Arc;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

use super::process;
use super::timing::LONGEST_TEST;

/// Kills the server of a test that takes too long. Then every call fails in time, and the test
/// ends.
pub struct TimeLimit {
    /// The process of the server. Locked while a signal is sent, so that no other process gets it.
    pid: Arc<Mutex<Option<u32>>>,
    _alive: Sender<()>,
}

impl TimeLimit {
    /// Without a server, only the second stage is left, which ends this process.
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

    /// The server now has another process, or none.
    pub fn set_process(&self, pid: Option<u32>) {
        *self.pid.lock() = pid;
    }
}
