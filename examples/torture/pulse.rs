//! A thread that only sleeps, so that the log tells how busy the machine is.

use std::thread;
use std::time::Duration;

use crate::clock;
use crate::log::{Event, Log};

const BEAT: Duration = Duration::from_millis(20);

/// Lateness that is not worth a line.
const USUAL: u64 = 10_000_000;

/// Writes down whenever it is woken late, for ever.
pub fn beat(log: &Log) {
    let beat = u64::try_from(BEAT.as_nanos()).expect("it is short");
    loop {
        let due = clock::now() + beat;
        thread::sleep(BEAT);
        let at = clock::now();
        let nanos = at.saturating_sub(due);
        if nanos > USUAL {
            log.write(at, 0, Event::Late { nanos });
        }
    }
}
