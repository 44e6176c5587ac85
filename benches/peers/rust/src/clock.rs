//! The clock that all processes of the machine share.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// The time from now until then, zero if it has passed.
pub fn until(time: u64) -> Duration {
    Duration::from_nanos(time.saturating_sub(now()))
}
