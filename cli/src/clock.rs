//! A clock that never steps, and that goes on while the machine sleeps, as the lease in Redis does.

use std::time::Duration;

/// A point in time of the [clock](self). Sums that overflow mean "never".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) const NEVER: Self = Self(Duration::MAX);

    /// Before everything.
    pub(crate) const ZERO: Self = Self(Duration::ZERO);

    pub(crate) fn now() -> Self {
        Self(since_start())
    }

    pub(crate) fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }

    pub(crate) fn before(self, duration: Duration) -> Self {
        if self == Self::NEVER {
            return self;
        }
        Self(self.0.saturating_sub(duration))
    }

    /// The time from `earlier` to here; zero if it is not earlier.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The time from now to here; zero once it is past.
    pub(crate) fn left(self) -> Duration {
        self.since(Self::now())
    }

    pub(crate) fn is_past(self) -> bool {
        Self::now() >= self
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn since_start() -> Duration {
    use nix::time::ClockId;

    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
    // On Apple's systems this clock counts sleep.
    #[cfg(target_vendor = "apple")]
    const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;

    CLOCK.now().map_or(Duration::ZERO, Duration::from)
}

/// On Windows the counter behind `Instant` counts sleep; elsewhere there is nothing better.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn since_start() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;

    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
