//! A thread that only sleeps, so that the log tells how busy the machine is.

use std::thread;
use std::time::Duration;

use crate::clock;
use crate::log::{Event, Log};

const INTERVAL: Duration = Duration::from_millis(20);

/// Lateness that is not worth a line.
const TOLERATED: u64 = 10_000_000;

/// Writes down whenever it is woken late, for ever.
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
