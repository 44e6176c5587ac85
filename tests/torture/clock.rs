//! A clock that all processes of this machine share.
//!
//! Values of `std::time::Instant` cannot be compared across processes.

use rustix::time::{ClockId, clock_gettime};

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

const NANOS: u64 = 1_000_000_000;

/// Nanoseconds since the machine started.
pub fn now() -> u64 {
    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).expect("after the start");
    let nanos = u64::try_from(time.tv_nsec).expect("it is not negative");
    seconds * NANOS + nanos
}
