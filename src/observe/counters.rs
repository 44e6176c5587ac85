//! What a client counts: once for [`Stats`], and once more for the `metrics` facade where that is built
//! in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::LostReason;

/// A counter in [`Stats`], its field here, and its name in the facade.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident = $series:literal $($label:literal $value:literal)?),+ $(,)?) => {
        /// Counters of one client since it was made. They never go down.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        #[derive(Debug)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)+
        }

        impl Default for Counters {
            fn default() -> Self {
                Self {
                    $($name: Counter::new(Series {
                        name: $series,
                        label: [$(($label, $value))?].first().copied(),
                    }),)+
                }
            }
        }

        impl Counters {
            pub(crate) fn stats(&self) -> Stats {
                Stats {
                    $($name: self.$name.count.load(Ordering::Relaxed),)+
                }
            }
        }
    };
}

counters! {
    /// Locks taken from Redis; nested acquires of a held lock do not count.
    acquisitions = "leasehold_acquisitions_total",
    /// Locks taken from Redis that were given back because too few replicas confirmed them.
    unreplicated = "leasehold_unreplicated_total",
    /// Nested acquires of a lock that the thread held already.
    reentries = "leasehold_reentries_total",
    /// Locks given back to Redis.
    releases = "leasehold_releases_total",
    /// Renewals that Redis confirmed, one for each lock and time; looks after fixed leases, too.
    renewals = "leasehold_renewals_total" "outcome" "done",
    /// Renewals that Redis answered with an error, one for each lock and time. The lock still stands, and
    /// is asked for again.
    renewals_failed = "leasehold_renewals_total" "outcome" "failed",
    /// Renewals that got no answer, one for each lock and time. They may have been done; the lock is
    /// asked for again.
    renewals_unknown = "leasehold_renewals_total" "outcome" "unknown",
    /// Script calls that the watchdog made, or tried to make, for all its renewals.
    renewal_calls = "leasehold_renewal_calls_total",
    /// Held locks that were lost, for any reason.
    lost = "leasehold_lost_total",
    /// Waits for another process that ended with its message, a new subscription, or an interrupt.
    wakeups_by_message = "leasehold_wakeups_total" "by" "message",
    /// Waits for another process that ended by the lease that Redis had told, or by a poll.
    wakeups_by_timeout = "leasehold_wakeups_total" "by" "timeout",
    /// Connections of the client's own threads that had to be opened again.
    reconnects = "leasehold_reconnects_total",
    /// Events that a receiver was too slow for.
    events_dropped = "leasehold_events_dropped_total",
}

/// What the facade knows a number by. No label holds the name of a lock: there may be millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Series {
    name: &'static str,
    label: Option<(&'static str, &'static str)>,
}

/// One counter of [`Stats`].
#[derive(Debug)]
pub(crate) struct Counter {
    count: AtomicU64,
    series: Series,
}

impl Counter {
    fn new(series: Series) -> Self {
        Self {
            count: AtomicU64::new(0),
            series,
        }
    }

    /// May call the application's metrics recorder. Never call this while a mutex is locked.
    pub(crate) fn add(&self, n: u64) {
        self.count(n);
        self.series.add(n);
    }

    fn count(&self, n: u64) {
        self.count.fetch_add(n, Ordering::Relaxed);
    }
}

impl Counters {
    /// A loss counts before anybody can see it, which is under a mutex, and is told to the facade
    /// after it, by [`tell_loss`](Self::tell_loss).
    pub(crate) fn count_loss(&self) {
        self.lost.count(1);
    }

    pub(crate) fn tell_loss(&self, reason: LostReason) {
        let reason = match reason {
            LostReason::Expired => "expired",
            LostReason::Deleted => "deleted",
            LostReason::Taken => "taken",
            LostReason::RenewalLimit => "renewal_limit",
        };
        let label = Some(("reason", reason));
        Series {
            label,
            ..self.lost.series
        }
        .add(1);
    }

    /// From the call for a lock until it was had.
    pub(crate) fn waited(&self, time: Duration) {
        record("leasehold_wait_seconds", time);
    }

    /// From when a lock was had until it was given back or lost.
    pub(crate) fn held(&self, time: Duration) {
        record("leasehold_hold_seconds", time);
    }
}

impl Series {
    fn add(self, n: u64) {
        if cfg!(feature = "metrics") {
            super::reporter::count(self, n);
        }
    }

    /// Calls the metrics recorder.
    #[cfg(feature = "metrics")]
    pub(super) fn record(self, n: u64) {
        let counter = match self.label {
            Some((label, value)) => metrics::counter!(self.name, label => value),
            None => metrics::counter!(self.name),
        };
        counter.increment(n);
    }

    #[cfg(not(feature = "metrics"))]
    pub(super) fn record(self, _: u64) {}
}

#[cfg(feature = "metrics")]
fn record(name: &'static str, time: Duration) {
    super::tell(move || metrics::histogram!(name).record(time));
}

#[cfg(not(feature = "metrics"))]
fn record(_: &'static str, _: Duration) {}
