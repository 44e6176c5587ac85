//! Watches how long the threads of a worker hand locks over without a request to Redis.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::LockClient;

use crate::clock;
use crate::log::{Event, Log};

const INTERVAL: Duration = Duration::from_millis(20);

/// A slice is at most 10 ms long, so hand-overs of one slice are seen in two intervals, or in one
/// more if the machine is busy.
const INTERVALS: u32 = 5;

/// Logs each time that [`INTERVALS`] intervals in a row had hand-overs, but no acquire, until
/// `stop` is true.
pub fn run(client: &LockClient, log: &Log, stop: &AtomicBool) {
    let (mut before, mut since, mut kept) = (client.stats(), clock::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(INTERVAL);
        let (now, stats) = (clock::now(), client.stats());
        if stats.acquisitions == before.acquisitions && stats.hand_overs > before.hand_overs {
            kept += 1;
        } else {
            (kept, since) = (0, now);
        }
        if kept == INTERVALS {
            let nanos = now - since;
            log.write(now, 0, Event::Kept { nanos });
        }
        before = stats;
    }
}
