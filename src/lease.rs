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
/// Lease::RENEWED.lasting(Duration::from_secs(5)); // as the first, but freed sooner after a crash
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// `None`: that of the client's watchdog.
    length: Option<Duration>,
    renewals: Renewals,
}

impl Lease {
    /// The lease is the client's [`watchdog_lease`](crate::LockClientBuilder::watchdog_lease) (30
    /// seconds by default), and the watchdog renews it until the lock is given back.
    pub const RENEWED: Self = Self {
        length: None,
        renewals: Renewals::Unlimited,
    };

    /// The lease ends by itself after `duration`, whether the work is done or not. Nothing renews it.
    /// Its holder stops a hundredth and 2 ms before that (see [`LockGuard::remaining`](crate::LockGuard::remaining)).
    ///
    /// Bounds: 1 ms to 2^53 ms; a fraction of a millisecond is rounded up. A lease outside them is
    /// an [`Error::Config`] of the first call that uses it.
    #[must_use]
    pub const fn fixed(duration: Duration) -> Self {
        Self {
            length: Some(duration),
            renewals: Renewals::None,
        }
    }

    /// As [`RENEWED`](Self::RENEWED), but renewed at most `renewals` times. When the next renewal
    /// would be due the holder is told
    /// ([`LostReason::RenewalLimit`](crate::LostReason::RenewalLimit)) while the last third of its
    /// lease still runs. This bounds how long a holder that hangs can keep everybody else out.
    #[must_use]
    pub const fn renewed_at_most(renewals: u32) -> Self {
        Self {
            length: None,
            renewals: Renewals::Left(renewals),
        }
    }

    /// The same, renewed or not, with a length of its own instead of the client's
    /// [`watchdog_lease`](crate::LockClientBuilder::watchdog_lease): the longest time that a process that
    /// dies keeps this lock.
    ///
    /// One thread of a client renews all of its locks, those that are due together within a sixth of the shortest of their
    /// leases. A lease of which a sixth is near the time that it takes to open a connection to Redis (with TLS and a
    /// password) may not outlast one that breaks, nor may longer ones beside it if there is always one due: such leases
    /// belong on a client of their own.
    ///
    /// Bounds: 10 ms to 2^53 ms for a lease that is renewed, otherwise those of [`fixed`](Self::fixed).
    #[must_use]
    pub const fn lasting(self, length: Duration) -> Self {
        Self {
            length: Some(length),
            renewals: self.renewals,
        }
    }

    /// What this lease means for one level of a hold, or why it is outside its bounds.
    pub(crate) fn terms(self, watchdog_lease: Duration) -> Result<Terms> {
        let length = self.length.unwrap_or(watchdog_lease);
        if self.renewals != Renewals::None && length < SHORTEST_RENEWED {
            return Err(Error::Config {
                field: "lease",
                value: format!("{length:?}"),
                rule: format!("a lease that is renewed is at least {SHORTEST_RENEWED:?}"),
            });
        }
        Ok(Terms {
            millis: whole_millis("lease", length)?,
            renewals: self.renewals,
        })
    }
}

/// A lease that leaves time for its renewal.
pub(crate) const SHORTEST_RENEWED: Duration = Duration::from_millis(10);

/// The longest lease: integers up to here survive Lua, whose numbers are doubles.
const MAX_MILLIS: u64 = 1 << 53;

/// A lease in the unit of the connection, rounded up so that the server never counts less than we do.
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
    fn a_renewed_lease_has_its_own_length_or_the_clients() {
        let own = Duration::from_secs(5);
        for (lease, millis, renewals) in [
            (Lease::RENEWED, 30_000, Renewals::Unlimited),
            (Lease::RENEWED.lasting(own), 5_000, Renewals::Unlimited),
            (
                Lease::renewed_at_most(2).lasting(own),
                5_000,
                Renewals::Left(2),
            ),
            (Lease::fixed(WATCHDOG).lasting(own), 5_000, Renewals::None),
        ] {
            let terms = lease.terms(WATCHDOG).unwrap();
            assert_eq!(
                (terms.millis, terms.renewals),
                (millis, renewals),
                "{lease:?}"
            );
        }
        let short = SHORTEST_RENEWED - Duration::from_nanos(1);
        assert!(Lease::RENEWED.lasting(short).terms(WATCHDOG).is_err());
        assert!(Lease::fixed(short).terms(WATCHDOG).is_ok());
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
