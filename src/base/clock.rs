//! The clock of this crate: it never steps, and it counts the time while the machine is suspended.
//!
//! A lease expires on the server while a laptop is closed or a virtual machine is suspended. A
//! clock that stops meanwhile, as `std::time::Instant` does on Linux, would treat a lost lock as
//! held.
//!
//! The command uses it, too, by a name that is hidden from the documentation.

use std::time::{Duration, Instant};

/// A point in time, in nanoseconds of this clock. A sum that overflows is [`NEVER`].
///
/// [`NEVER`]: Self::NEVER
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// Later than every other moment.
    pub const NEVER: Self = Self(u64::MAX);

    /// Earlier than every other moment.
    pub const ZERO: Self = Self(0);

    /// The time now.
    pub fn now() -> Self {
        Self(since_boot())
    }

    /// The moment that is later by this duration.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// The moment that is earlier by this duration.
    pub fn before(self, duration: Duration) -> Self {
        if self == Self::NEVER {
            return self;
        }
        Self(self.0.saturating_sub(nanos(duration)))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The time from now to this moment; zero if it is past.
    pub fn left(self) -> Duration {
        // Most waits have no end, and need no clock.
        if self == Self::NEVER {
            return Duration::from_nanos(self.0);
        }
        self.since(Self::now())
    }

    /// The time for one of this number of attempts, of which each has an equal share of what is
    /// left until this moment.
    pub(crate) fn share(self, attempts: usize) -> Duration {
        self.left() / u32::try_from(attempts).unwrap_or(u32::MAX).max(1)
    }

    /// What is left of the current period, if periods of this length follow each other from the
    /// start of the clock. Never zero.
    pub(crate) fn left_of(self, period: Duration) -> Duration {
        let period = nanos(period).max(1);
        Duration::from_nanos(period - self.0 % period)
    }

    /// True if this moment has come.
    pub fn is_past(self) -> bool {
        self != Self::NEVER && Self::now() >= self
    }
}

/// The moment that is as far from now as the instant is.
impl From<Instant> for Moment {
    fn from(instant: Instant) -> Self {
        let now = Self::now();
        match instant.checked_duration_since(Instant::now()) {
            Some(left) => now.after(left),
            None => now.before(instant.elapsed()),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn since_boot() -> u64 {
    use rustix::time::{ClockId, clock_gettime};

    const NANOS_PER_SECOND: u64 = 1_000_000_000;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    // Apple's CLOCK_MONOTONIC counts suspended time; CLOCK_UPTIME_RAW does not.
    #[cfg(target_vendor = "apple")]
    const CLOCK: ClockId = ClockId::Monotonic;

    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds
        .saturating_mul(NANOS_PER_SECOND)
        .saturating_add(nanos)
}

/// On Windows `Instant` counts suspended time. Other systems offer no better clock here.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn since_boot() -> u64 {
    use std::sync::OnceLock;

    static START: OnceLock<Instant> = OnceLock::new();
    nanos(START.get_or_init(Instant::now).elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_clock_goes_forward() {
        let first = Moment::now();
        assert!(Moment::now() >= first);
        assert!(first.is_past());
        assert!(!Moment::now().after(Duration::from_secs(60)).is_past());
    }

    #[test]
    fn an_overflow_means_never() {
        let never = Moment::now().after(Duration::MAX);
        assert_eq!(never, Moment::NEVER);
        assert_eq!(never.before(Duration::from_secs(1)), Moment::NEVER);
        assert!(!never.is_past());
    }

    #[test]
    fn an_instant_is_as_far_from_now_as_its_moment() {
        let minute = Duration::from_secs(60);
        let later = Moment::from(Instant::now() + minute).left();
        assert!(later <= minute && later > minute / 2, "{later:?}");
        assert!(Moment::from(Instant::now()).is_past());
    }

    proptest! {
        #[test]
        fn sums_and_differences_agree(start in 0..u64::MAX / 4, step in 0..u64::MAX / 4) {
            let (start, step) = (Moment(start), Duration::from_nanos(step));
            prop_assert_eq!(start.after(step).since(start), step);
            prop_assert_eq!(start.since(start.after(step)), Duration::ZERO);
            prop_assert_eq!(start.after(step).before(step), start);
        }
    }
}
