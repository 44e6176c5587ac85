//! How long a lock is held without further word from its holder.

use std::time::Duration;

use crate::error::{Error, Result};

/// How long Redis keeps a lock for its holder, and whether the watchdog renews it meanwhile.
///
/// Redisson hides this choice in one number (`leaseTime`, where -1 means "renew"), and users are
/// surprised that naming a lease turns the watchdog off. Here the name says it.
///
/// ```
/// use std::time::Duration;
/// use leasehold::Lease;
///
/// Lease::RENEWED;                          // lives as long as its holder
/// Lease::fixed(Duration::from_secs(30));   // ends by itself
/// Lease::renewed_at_most(10);              // lives with its holder, up to a limit
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Renewed,
    AtMost(u32),
    Fixed(Duration),
}

impl Lease {
    /// The lease is the client's [`watchdog_lease`](crate::LockClientBuilder::watchdog_lease) (30
    /// seconds by default), and the watchdog renews it until the lock is given back.
    pub const RENEWED: Self = Self(Kind::Renewed);

    /// The lease ends by itself after `duration`, whether the work is done or not. Nothing renews it.
    /// Its holder stops a hundredth and 2 ms before that (see [`LockGuard::remaining`](crate::LockGuard::remaining)).
    ///
    /// Bounds: 1 ms to 2^53 ms; a fraction of a millisecond is rounded up. A lease outside them is
    /// an [`Error::Config`] of the first call that uses it.
    #[must_use]
    pub const fn fixed(duration: Duration) -> Self {
        Self(Kind::Fixed(duration))
    }

    /// As [`RENEWED`](Self::RENEWED), but renewed at most `renewals` times. When the next renewal
    /// would be due the holder is told
    /// ([`LostReason::RenewalLimit`](crate::LostReason::RenewalLimit)) while the last third of its
    /// lease still runs. This bounds how long a holder that hangs can keep everybody else out.
    #[must_use]
    pub const fn renewed_at_most(renewals: u32) -> Self {
        Self(Kind::AtMost(renewals))
    }

    /// What this lease means for one level of a hold, or why it is outside its bounds.
    pub(crate) fn terms(self, watchdog_lease: Duration) -> Result<Terms> {
        let (length, renewals) = match self.0 {
            Kind::Renewed => (watchdog_lease, Renewals::Unlimited),
            Kind::AtMost(n) => (watchdog_lease, Renewals::Left(n)),
            Kind::Fixed(length) => (length, Renewals::None),
        };
        Ok(Terms {
            millis: whole_millis("lease", length)?,
            renewals,
        })
    }
}

/// The longest lease: integers up to here survive Lua, whose numbers are doubles.
const MAX_MILLIS: u64 = 1 << 53;

/// A lease in the unit of the wire, rounded up so that the server never counts less than we do.
pub(crate) fn whole_millis(field: &'static str, length: Duration) -> Result<u64> {
    let millis = length.as_nanos().div_ceil(1_000_000);
    match u64::try_from(millis) {
        Ok(millis) if length >= Duration::from_millis(1) && millis <= MAX_MILLIS => Ok(millis),
        _ => Err(Error::Config {
            field,
            value: format!("{length:?}"),
            rule: "a lease is at least 1 ms and at most 2^53 ms".into(),
        }),
    }
}

/// By how much a hold ends here before its lease, because the clock of the server may run faster
/// than ours. As in Redlock a hundredth of the lease and 2 ms, but at most half of it, so that the
/// shortest lease is one.
pub(crate) fn drift(lease: Duration) -> Duration {
    (lease / 100 + Duration::from_millis(2)).min(lease / 2)
}

/// What one level of a hold asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) millis: u64,
    pub(crate) renewals: Renewals,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewals {
    /// A fixed lease.
    None,
    /// Renewed this many times more.
    Left(u32),
    Unlimited,
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCHDOG: Duration = Duration::from_secs(30);

    #[test]
    fn a_lease_outside_its_bounds_is_refused() {
        for bad in [
            Duration::ZERO,
            Duration::from_micros(999),
            Duration::from_millis(MAX_MILLIS + 1),
            Duration::MAX,
        ] {
            let error = Lease::fixed(bad).terms(WATCHDOG).unwrap_err();
            assert!(
                matches!(error, Error::Config { field: "lease", .. }),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_lease_at_its_bounds_is_taken_as_it_is() {
        for good in [1, 2, MAX_MILLIS] {
            let terms = Lease::fixed(Duration::from_millis(good)).terms(WATCHDOG);
            assert_eq!(terms.unwrap().millis, good);
        }
    }

    #[test]
    fn the_drift_is_a_little_of_any_lease() {
        for (lease, expected) in [
            (30_000_000, 302_000),
            (1_000_000, 12_000),
            (10_000, 2_100),
            (4_000, 2_000),
            (1_000, 500),
        ] {
            let drift = drift(Duration::from_micros(lease));
            assert_eq!(drift, Duration::from_micros(expected), "of {lease} us");
        }
    }

    #[test]
    fn a_fraction_of_a_millisecond_is_rounded_up() {
        let terms = Lease::fixed(Duration::from_micros(1001)).terms(WATCHDOG);
        assert_eq!(terms.unwrap().millis, 2);
    }
}
