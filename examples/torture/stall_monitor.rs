//! Measures how late the machine wakes a thread that only sleeps.

use std::thread;
use std::time::Duration;

use crate::clock;
use crate::log::{Event, Log};

const INTERVAL: Duration = Duration::from_millis(20);

/// Delays up to this are not logged, in nanoseconds.
const TOLERATED: u64 = 10_000_000;

/// Logs each late wake-up. Never returns.
pub fn run(log: &Log) {
    let interval = u64::try_from(INTERVAL.as_nanos()).expect("it is short");
    loop {
        let due = clock::now() + interval;
        thread::sleep(INTERVAL);
        let at = clock::now();
        let nanos = at.saturating_sub(due);
        if nanos > TOLERATED {
            log.write(at, 0, Event::Late { nanos });
        }
    }
}
