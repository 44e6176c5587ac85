//! A limit for the time of each test, even if the library hangs.

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use super::timing::LONGEST_TEST;

/// Ends this process if a test takes too long.
pub struct TimeLimit {
    _alive: Sender<()>,
}

impl TimeLimit {
    pub fn start() -> Self {
        let (alive, ended) = bounded(0);
        let test = std::thread::current().name().map(str::to_owned);
        std::thread::spawn(move || {
            if ended.recv_timeout(LONGEST_TEST.get()) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{test:?} hangs; this ends all tests");
                std::process::abort();
            }
        });
        Self { _alive: alive }
    }
}
