//! A clock that all processes of the machine share.

use std::{thread, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since a moment in the past.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// The time that is this much later than now.
pub fn after(duration: Duration) -> u64 {
    now() + nanos(duration)
}

pub fn sleep_until(time: u64) {
    sleep(Duration::from_nanos(time.saturating_sub(now())));
}

/// Sleeps, or returns at once if there is no time to sleep.
pub fn sleep(duration: Duration) {
    if !duration.is_zero() {
        thread::sleep(duration);
    }
}

pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
