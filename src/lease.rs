//! How long Redis keeps a lock, and whether it is renewed.

use std::time::Duration;

use crate::base::Moment;
use crate::error::{Error, Result};

/// How long Redis keeps a lock for its holder, and whether the watchdog renews it.
///
/// In Redisson one number (`leaseTime`) makes this choice: -1 means that the watchdog renews the
/// lease, and any other number turns the watchdog off. Here each choice has a name.
///
/// ```
/// use std::time::Duration;
/// use leasehold::Lease;
///
/// // Renewed until the lock is released.
/// let renewed = Lease::RENEWED;
/// // Ends after 30 seconds.
/// let fixed = Lease::fixed(Duration::from_secs(30));
/// // Renewed, and free 5 seconds after a crash of its holder.
/// let short = Lease::renewed(Duration::from_secs(5));
/// // Renewed, but free an hour after the acquire, even if its holder hangs.
/// let limited = Lease::held_at_most(Duration::from_secs(3600));
/// // Both.
/// let both = limited.lasting(Duration::from_secs(5));
/// ```
///
/// A `Duration` alone is no lease, because it does not say what happens at its end. It could mean
/// [`Lease::fixed`], after which other clients get the lock although the work continues, or
/// [`Lease::renewed`], which ends only with the process. So the compiler
/// refuses it ("expected `Lease`, found `Duration`"):
///
/// ```compile_fail,E0308
/// # fn main() -> leasehold::Result<()> {
/// # let lock = leasehold::LockClient::connect("redis://127.0.0.1:6379")?.reentrant_lock("a");
/// let guard = lock.acquire_with(std::time::Duration::from_secs(30))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Lease {
    /// `None` means the client's `watchdog_lease`.
    length: Option<Duration>,
    renewals: Renewals,
}

impl Lease {
    /// A lease that the watchdog renews until the lock is released. Its length is the client's
    /// [`watchdog_lease`](crate::LockClientBuilder::watchdog_lease), 30 seconds by default.
    pub const RENEWED: Self = Self {
        length: None,
        renewals: Renewals::Unlimited,
    };

    /// Returns a lease that ends after `duration`, whether the work is done or not. The watchdog
    /// does not renew it. Its holder loses the lock 1 % of `duration` and 2 ms earlier (at most
    /// half of it), because the clock of the server may run faster (see
    /// [`LockGuard::remaining`](crate::LockGuard::remaining)).
    ///
    /// Bounds: 1 ms to 2^53 ms. A fraction of a millisecond is rounded up. The first call that uses
    /// a lease outside these bounds fails with [`Error::InvalidArgument`].
    pub const fn fixed(duration: Duration) -> Self {
        Self {
            length: Some(duration),
            renewals: Renewals::None,
        }
    }

    /// Returns a lease of this length that the watchdog renews until the lock is released. The
    /// length is the longest time that a lock stays held after its process has crashed.
    ///
    /// The bounds are those of [`lasting`](Self::lasting).
    pub const fn renewed(length: Duration) -> Self {
        Self::RENEWED.lasting(length)
    }

    /// Returns a lease that the watchdog renews so that it ends at the latest `max` after the
    /// acquire. This bounds how long a holder that hangs can block other clients. Its length is the
    /// client's [`watchdog_lease`](crate::LockClientBuilder::watchdog_lease).
    ///
    /// When a third to a half of a lease is left until then, the holder loses the lock, with the
    /// reason [`LostReason::RenewalLimit`](crate::LostReason::RenewalLimit). It can end its work
    /// before other clients get the lock. With a lease of 30 seconds and a `max` of an hour, that
    /// is 10 to 15 seconds before the end of the hour.
    ///
    /// If `max` is not longer than the lease, it is the length of a [fixed](Self::fixed) lease, and
    /// has its bounds. A longer `max` has none. The time begins when the lock is granted, and again
    /// if the thread waits on a [`Condition`](crate::Condition) meanwhile. If Redis stands still,
    /// it may execute the last renewal late, and the lease then ends later by that time: at most by
    /// what was left of the lease when the renewal was sent, about a third.
    /// [`extend`](crate::LockGuard::extend) is not limited.
    ///
    /// If the hold has several levels, it ends when no level may be renewed any more. A level
    /// without a limit keeps it, and its lease stays when the level is unlocked.
    pub const fn held_at_most(max: Duration) -> Self {
        Self {
            length: None,
            renewals: Renewals::For(max),
        }
    }

    /// Returns a lease that the watchdog renews at most `renewals` times. Its length is the
    /// client's [`watchdog_lease`](crate::LockClientBuilder::watchdog_lease).
    ///
    /// When the next renewal would be due, about a third of the last lease is left. At that time
    /// the holder loses the lock, with the reason
    /// [`LostReason::RenewalLimit`](crate::LostReason::RenewalLimit). This bounds how long a holder
    /// that hangs can block other clients.
    ///
    /// If the hold has several levels, it ends when no level has renewals left. A level without a
    /// limit keeps it.
    pub const fn renewed_at_most(renewals: u32) -> Self {
        Self {
            length: None,
            renewals: Renewals::Left(renewals),
        }
    }

    /// Returns this lease with the given length instead of the client's
    /// [`watchdog_lease`](crate::LockClientBuilder::watchdog_lease). The length is the longest time
    /// that a lock stays held after its process has crashed.
    ///
    /// One thread renews all locks of a client. It renews the locks that are due together within a
    /// sixth of the shortest lease. If a sixth of a lease is near the time that opening a
    /// connection takes (with TLS and a password), the lease may end when a connection breaks, and
    /// so may longer leases of the same client. Use a separate client for such short leases.
    ///
    /// Bounds: 10 ms to 2^53 ms for a renewed lease, 1 ms to 2^53 ms for a fixed one. The first
    /// call that uses a lease outside these bounds fails with [`Error::InvalidArgument`].
    pub const fn lasting(mut self, length: Duration) -> Self {
        self.length = Some(length);
        self
    }

    /// The terms for one level of a hold of the lock of this name. Fails if the lease is outside
    /// its bounds.
    pub(crate) fn terms(self, name: &str, watchdog_lease: Duration) -> Result<Terms> {
        let length = self.length.unwrap_or(watchdog_lease);
        let (length, renewals) = match self.renewals {
            Renewals::For(max) if max <= length => (max, Renewals::None),
            renewals => (length, renewals),
        };
        let millis = match renewals {
            Renewals::None => whole_millis(length),
            _ => check_renewed(length),
        };
        let invalid =
            |rule| Error::argument("lease", format_args!("{length:?}"), rule).concerning(name);
        let millis = millis.map_err(invalid)?;
        Ok(Terms { millis, renewals })
    }
}

/// The shortest lease that leaves time for its renewal.
const SHORTEST_RENEWED: Duration = Duration::from_millis(10);

/// A renewed lease in milliseconds. If it cannot have this length, the rule that it breaks.
pub(crate) fn check_renewed(length: Duration) -> Result<u64, &'static str> {
    if length < SHORTEST_RENEWED {
        return Err("a renewed lease must be at least 10ms");
    }
    whole_millis(length)
}

/// The longest lease. Lua's numbers are doubles, which represent integers exactly up to here.
const MAX_MILLIS: u64 = 1 << 53;

/// A lease in milliseconds, the unit of Redis, or the rule that it breaks. Rounded up, so that the
/// lease in Redis is never shorter than the one in this process.
pub(crate) fn whole_millis(length: Duration) -> Result<u64, &'static str> {
    let millis = length.as_nanos().div_ceil(1_000_000);
    match u64::try_from(millis) {
        Ok(millis) if length >= Duration::from_millis(1) && millis <= MAX_MILLIS => Ok(millis),
        _ => Err("must be at least 1 ms and at most 2^53 ms, which are 285,000 years"),
    }
}

/// A lease is renewed when one part of it is left, of this many. `lua/read_write_acquire.lua` has
/// the same number.
pub(crate) const LEASE_PARTS: u32 = 3;

/// How much is left of a lease when it is renewed.
pub(crate) fn left_at_renewal(lease: Duration) -> Duration {
    lease / LEASE_PARTS
}

/// How much earlier than in Redis a hold ends in this process, because the clock of the server may
/// run faster. As in Redlock this is 1 % of the lease and 2 ms, but at most half of the lease.
pub(crate) fn drift(lease: Duration) -> Duration {
    (lease / 100 + Duration::from_millis(2)).min(lease / 2)
}

/// The lease that one level of a hold requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) millis: u64,
    pub(crate) renewals: Renewals,
}

impl Terms {
    /// The length of the lease.
    pub(crate) fn length(self) -> Duration {
        Duration::from_millis(self.millis)
    }

    /// The longest lease that a renewal at `now` may have, in milliseconds.
    pub(crate) fn millis_at(self, now: Moment) -> u64 {
        match self.renewals {
            Renewals::Until(end) => {
                let left = u64::try_from(end.since(now).as_millis());
                left.map_or(self.millis, |left| left.min(self.millis))
            }
            _ => self.millis,
        }
    }

    /// The terms of a hold that is given away at `now`. Its lease until it is adopted counts as a
    /// renewal, all of it, because a token does not tell how long it is under way. So it is at most
    /// half of the time that is left, and the adopted hold has [the rest](Self::adopted_after).
    pub(crate) fn given_away_at(self, now: Moment) -> Self {
        match self.renewals {
            Renewals::Until(end) => {
                let half = u64::try_from((end.since(now) / 2).as_millis());
                let millis = self.millis.min(half.unwrap_or(u64::MAX)).max(1);
                Self { millis, ..self }
            }
            Renewals::Left(left) => Self {
                renewals: Renewals::Left(left.saturating_sub(1)),
                ..self
            },
            _ => self,
        }
    }

    /// The terms of the hold that is adopted, if Redis gave it away with these before `now`.
    pub(crate) fn adopted_after(self, now: Moment) -> Self {
        let Renewals::Until(end) = self.renewals else {
            return self;
        };
        let rest = end.since(now).saturating_sub(self.length());
        let millis = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
        Self {
            millis: self.millis.min(millis).max(1),
            renewals: Renewals::For(rest),
        }
    }

    /// True if there is no further renewal at `now`. One that would make the lease only a little
    /// longer is left out, so that the holder learns of the limit in time.
    pub(crate) fn is_used_up(self, now: Moment) -> bool {
        match self.renewals {
            Renewals::None | Renewals::Left(0) => true,
            Renewals::Until(_) => self.millis_at(now) <= self.millis / 2,
            Renewals::Left(_) | Renewals::For(_) | Renewals::Unlimited => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewals {
    /// A fixed lease.
    None,
    /// This many renewals are left.
    Left(u32),
    /// So that the lease ends within this time. The level that has these terms has
    /// [`Until`](Self::Until).
    For(Duration),
    /// So that the lease ends before this moment.
    Until(Moment),
    Unlimited,
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCHDOG: Duration = Duration::from_secs(30);

    #[test]
    fn a_renewed_lease_has_its_own_length_or_the_clients() {
        let own = Duration::from_secs(5);
        for (lease, millis, renewals) in [
            (Lease::RENEWED, 30_000, Renewals::Unlimited),
            (Lease::renewed(own), 5_000, Renewals::Unlimited),
            (Lease::held_at_most(own), 5_000, Renewals::None),
            (
                Lease::held_at_most(WATCHDOG).lasting(own),
                5_000,
                Renewals::For(WATCHDOG),
            ),
            (
                Lease::renewed_at_most(2).lasting(own),
                5_000,
                Renewals::Left(2),
            ),
            (Lease::fixed(WATCHDOG).lasting(own), 5_000, Renewals::None),
        ] {
            let terms = lease.terms("lock", WATCHDOG).unwrap();
            assert_eq!(
                (terms.millis, terms.renewals),
                (millis, renewals),
                "{lease:?}"
            );
        }
        let short = SHORTEST_RENEWED - Duration::from_nanos(1);
        assert!(
            Lease::RENEWED
                .lasting(short)
                .terms("lock", WATCHDOG)
                .is_err()
        );
        assert!(Lease::fixed(short).terms("lock", WATCHDOG).is_ok());
    }

    #[test]
    fn a_lease_at_its_bounds_is_taken_as_it_is() {
        for good in [1, 2, MAX_MILLIS] {
            let terms = Lease::fixed(Duration::from_millis(good)).terms("lock", WATCHDOG);
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

    /// Whether Redis executes the request at once or later, and whether the hold is adopted at once
    /// or when its lease ends.
    #[test]
    fn a_limit_holds_however_often_a_hold_is_given_away() {
        let begin = Moment::now();
        let end = begin.after(Duration::from_secs(100));
        for (delay, leases_under_way) in [(0, 0), (0, 1), (3, 0), (3, 1), (30, 0)] {
            let mut now = begin;
            let mut renewals = Renewals::Until(end);
            for round in 0..12 {
                let millis = 30_000;
                let given = Terms { millis, renewals }.given_away_at(now);
                now = now.after(Duration::from_secs(delay));
                let adopted = given.adopted_after(now);
                let Renewals::For(left) = adopted.renewals else {
                    panic!("{adopted:?}");
                };
                if left.is_zero() {
                    break;
                }
                now = now.after(given.length() * leases_under_way);
                assert!(
                    now.after(left.max(adopted.length())) <= end,
                    "{round}: {adopted:?}"
                );
                renewals = Renewals::Until(now.after(left));
            }
        }
        for (left, expected) in [(2, 1), (1, 0), (0, 0)] {
            let renewals = Renewals::Left(left);
            let given = Terms {
                millis: 9,
                renewals,
            }
            .given_away_at(begin);
            assert_eq!(
                (given.millis, given.renewals),
                (9, Renewals::Left(expected))
            );
        }
    }

    #[test]
    fn a_fraction_of_a_millisecond_is_rounded_up() {
        let terms = Lease::fixed(Duration::from_micros(1001)).terms("lock", WATCHDOG);
        assert_eq!(terms.unwrap().millis, 2);
    }
}
