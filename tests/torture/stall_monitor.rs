//! Measures how late the machine wakes a thread that only sleeps.

use std::sync::Weak;
use std::thread;
use std::time::Duration;

use crate::clock;
use crate::log::{Event, Log};

const INTERVAL: Duration = Duration::from_millis(20);

/// Delays up to this are not logged, in nanoseconds.
const TOLERATED: u64 = 10_000_000;

/// Logs each late wake-up until the log is closed.
pub fn run(log: &Weak<Log>) {
    let interval = u64::try_from(INTERVAL.as_nanos()).expect("it is short");
    loop {
        let due = clock::now() + interval;
        thread::sleep(INTERVAL);
        let at = clock::now();
        let nanos = at.saturating_sub(due);
        let Some(log) = log.upgrade() else {
            return;
        };
        if nanos > TOLERATED {
            log.write(at, 0, Event::Late { nanos });
        }
    }
}
