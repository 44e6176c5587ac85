//! The counters and gauges of a client, for [`Stats`] and for the `metrics` facade if that is built
//! in.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::time::Duration;

use super::metric_label::MetricLabel;
use super::series::{Label, Series};
use crate::base::LockKey;
use crate::base::call_budget::WaitObserver;
use crate::error::LostReason;

/// For each counter: its field in [`Stats`] and in `Counters`; in the facade its name, its labels,
/// and its description.
macro_rules! counters {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident = $series:literal $labels:expr => $help:expr
    ),+ $(,)?) => {
        /// The counters of one client since it was created, which never decrease, and how many
        /// locks it holds and waits for now.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            /// Locks and permits of leased semaphores that threads of this client hold now, each
            /// name or server of a lock of several counted separately. Nested acquires do not
            /// count.
            pub held: u64,
            /// Calls that wait now for a lock or for permits that others have, or for a latch.
            pub waiting: u64,
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        #[derive(Debug)]
        pub(crate) struct Counters {
            held: Counter,
            waiting: Counter,
            /// The label of waits and holds.
            pub(crate) label: MetricLabel,
            $(pub(crate) $name: Counter,)+
        }

        impl Default for Counters {
            fn default() -> Self {
                Self {
                    held: Counter::gauge(HELD),
                    waiting: Counter::gauge(WAITING),
                    label: MetricLabel::default(),
                    $($name: {
                        const LABELS: &[Label] = &$labels;
                        Counter::new(Series::counter($series, LABELS.first().copied()))
                    },)+
                }
            }
        }

        /// What the facade has of each counter: its name, its labels, and its description.
        #[cfg(feature = "metrics")]
        const IN_FACADE: &[(&str, &[Label], &str)] = &[$(($series, &$labels, $help),)+];

        impl Counters {
            pub(crate) fn stats(&self) -> Stats {
                Stats {
                    held: self.held.get(),
                    waiting: self.waiting.get(),
                    $($name: self.$name.get(),)+
                }
            }
        }
    };
}

#[cfg(feature = "metrics")]
const FAILED_ACQUIRES: &str = "Calls that did not acquire a lock or permits.";
#[cfg(feature = "metrics")]
const RENEWALS: &str = "Renewals of held locks.";
#[cfg(feature = "metrics")]
const WAKEUPS: &str = "Ends of waits for the lock of another client.";

counters! {
    /// Locks and permits of leased semaphores acquired from Redis, each name or server of a lock of
    /// several counted separately. Not counted are nested acquires, locks that another thread of
    /// this client has handed over, and locks that [lingered](crate::LockClientBuilder::linger).
    acquisitions = "leasehold_acquisitions_total" [] => "Locks and permits acquired from Redis.",
    /// Locks acquired from Redis and released again because too few replicas confirmed them.
    unreplicated = "leasehold_unreplicated_total" []
        => "Locks released again because too few replicas confirmed them.",
    /// Locks that a thread got from another thread of this client, or read locks that it shares
    /// with one, without a request to Redis; each name or server of a lock of several counted
    /// separately.
    hand_overs = "leasehold_hand_overs_total" []
        => "Locks that a thread got from another thread of its client, without a request.",
    /// Nested acquires: the thread already held the lock.
    reentries = "leasehold_reentries_total" [] => "Nested acquires.",
    /// Locks released in Redis by the unlock of a thread, or after the drop of an
    /// [`OwnedGuard`](crate::OwnedGuard) or the end of
    /// [`linger`](crate::LockClientBuilder::linger), and locks that were given away by a token.
    /// Locks that were handed over, and releases that the watchdog repeats, do not count.
    releases = "leasehold_releases_total" []
        => "Locks released in Redis by an unlock or the drop of a guard.",
    /// Calls that did not acquire a lock or permits because others had them until the wait ended,
    /// also if the wait was zero.
    acquires_timed_out = "leasehold_failed_acquires_total" [("reason", "timeout")]
        => FAILED_ACQUIRES,
    /// Calls that did not acquire a lock or permits because Redis did not reply in time.
    acquires_unavailable = "leasehold_failed_acquires_total" [("reason", "unavailable")]
        => FAILED_ACQUIRES,
    /// Calls that did not acquire a lock or permits because Redis replied with an error, or too few
    /// replicas confirmed the request.
    acquires_refused = "leasehold_failed_acquires_total" [("reason", "refused")] => FAILED_ACQUIRES,
    /// Renewals that Redis confirmed, each lock counted separately. Includes the checks of fixed
    /// leases after two thirds of them, and hold counts that were written, but not what
    /// [`confirm_every`](crate::LockClientBuilder::confirm_every) costs.
    renewals = "leasehold_renewals_total" [("outcome", "done")] => RENEWALS,
    /// Renewals to which Redis replied with an error, each lock counted separately. The locks are
    /// still held, and the client repeats the renewals.
    renewals_failed = "leasehold_renewals_total" [("outcome", "failed")] => RENEWALS,
    /// Renewals without a reply, each lock counted separately. Redis may have executed them, and
    /// the client repeats them.
    renewals_unknown = "leasehold_renewals_total" [("outcome", "unknown")] => RENEWALS,
    /// Script calls that the watchdog sent, or tried to send, for renewals. One call renews many
    /// locks.
    renewal_calls = "leasehold_renewal_calls_total" []
        => "Script calls for renewals. One call renews many locks.",
    /// Held locks that were lost, for any reason.
    lost = "leasehold_lost_total" LOST => "Held locks that were lost.",
    /// Waits for another client's lock that a release message, a new subscription or an interrupt
    /// ended.
    wakeups_by_message = "leasehold_wakeups_total" [("by", "message")] => WAKEUPS,
    /// Waits for another client's lock that ended at the end of the reported lease or of a polling
    /// interval.
    wakeups_by_timeout = "leasehold_wakeups_total" [("by", "timeout")] => WAKEUPS,
    /// Connections of the client's own threads that were opened again after a failure.
    reconnects = "leasehold_reconnects_total" []
        => "Connections of the own threads of clients that were opened again.",
    /// Events that receivers missed because they were too slow.
    events_dropped = "leasehold_events_dropped_total" []
        => "Events that receivers missed because they were too slow.",
}

/// The labels of losses.
const LOST: [Label; 5] = [
    ("reason", label_of(LostReason::Expired)),
    ("reason", label_of(LostReason::Deleted)),
    ("reason", label_of(LostReason::Taken)),
    ("reason", label_of(LostReason::RenewalLimit)),
    ("reason", label_of(LostReason::ShutDown)),
];

/// The label of a loss in metrics and in spans.
pub(super) const fn label_of(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Expired => "expired",
        LostReason::Deleted => "deleted",
        LostReason::Taken => "taken",
        LostReason::RenewalLimit => "renewal_limit",
        LostReason::ShutDown => "shut_down",
        // No hold is lost for this reason.
        LostReason::TokenSpent => "token_spent",
    }
}

const HELD: &str = "leasehold_held";
const WAITING: &str = "leasehold_waiting";
const WAIT: &str = "leasehold_wait_seconds";
const HOLD: &str = "leasehold_hold_seconds";

/// One number of [`Stats`]. Only a gauge decreases.
#[derive(Debug)]
pub(crate) struct Counter {
    number: AtomicI64,
    series: Series,
}

impl Counter {
    fn new(series: Series) -> Self {
        Self {
            number: AtomicI64::new(0),
            series,
        }
    }

    fn gauge(name: &'static str) -> Self {
        Self::new(Series::gauge(name))
    }

    /// May call the application's metrics recorder. Never call this while a mutex is locked.
    pub(crate) fn add(&self, n: u64) {
        self.change(n as i64);
    }

    /// Adds `by`, which is negative if a gauge decreases. May call the application's metrics
    /// recorder, as [`add`](Self::add).
    fn change(&self, by: i64) {
        self.change_stats(by);
        change(self.series, by);
    }

    fn change_stats(&self, by: i64) {
        self.number.fetch_add(by, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        u64::try_from(self.number.load(Ordering::Relaxed)).unwrap_or_default()
    }
}

/// Whether a hold is counted. Its begin is not counted after its end: the watchdog may find its
/// loss before its thread has it.
#[derive(Debug, Default)]
pub(crate) struct HoldCount(AtomicU8);

const IS_COUNTED: u8 = 1;
const HAS_ENDED: u8 = 2;

impl HoldCount {
    /// Continues to count a hold as this other one, which is not counted any more.
    pub(crate) fn continue_as(&self, other: &Self) {
        let state = other.0.swap(HAS_ENDED, Ordering::Relaxed);
        self.0.store(state, Ordering::Relaxed);
    }
}

impl Counters {
    /// Counts a loss for [`Stats`]. The caller holds the mutex under which the loss becomes
    /// visible, and calls [`tell_loss`](Self::tell_loss) after it has unlocked it.
    pub(crate) fn count_loss(&self) {
        self.lost.change_stats(1);
    }

    /// Counts a loss in the facade.
    pub(crate) fn tell_loss(&self, reason: LostReason) {
        let label = Some(("reason", label_of(reason)));
        let series = Series {
            label,
            ..self.lost.series
        };
        change(series, 1);
    }

    /// Counts a hold that begins, and records the time from the call until the lock was acquired.
    pub(crate) fn add_hold(&self, of: &HoldCount, key: &LockKey, time: impl FnOnce() -> Duration) {
        let begun =
            of.0.compare_exchange(0, IS_COUNTED, Ordering::Relaxed, Ordering::Relaxed);
        if begun.is_ok() {
            self.held.change(1);
        }
        self.label.record(WAIT, key, time);
    }

    /// Counts a hold that ends, and records the time from the acquire until the lock was released
    /// or lost.
    pub(crate) fn end_hold(&self, of: &HoldCount, key: &LockKey, held: impl FnOnce() -> Duration) {
        if of.0.swap(HAS_ENDED, Ordering::Relaxed) == IS_COUNTED {
            self.held.change(-1);
            self.label.record(HOLD, key, held);
        }
    }
}

impl WaitObserver for Counters {
    fn begins(&self) {
        self.waiting.change(1);
    }

    fn ends(&self) {
        self.waiting.change(-1);
    }
}

/// Describes all metrics in the facade, and registers each counter with zero: an alert on its
/// increase would not see the first one otherwise. May call the application's metrics recorder:
/// called on a thread of the application, without a locked mutex.
#[cfg(feature = "metrics")]
pub(crate) fn register() {
    use metrics::Unit;

    for &(name, labels, help) in IN_FACADE {
        super::tell(move || metrics::describe_counter!(name, Unit::Count, help));
        let labels = labels.iter().copied().map(Some);
        let unlabelled = labels.len() == 0;
        for label in labels.chain(unlabelled.then_some(None)) {
            change(Series::counter(name, label), 0);
        }
    }
    for (name, help) in [
        (HELD, "Locks and permits that are held."),
        (
            WAITING,
            "Calls that wait for a lock, for permits or for a latch.",
        ),
    ] {
        super::tell(move || metrics::describe_gauge!(name, Unit::Count, help));
        change(Series::gauge(name), 0);
    }
    for (name, help) in [
        (WAIT, "Time from the call until the lock was acquired."),
        (
            HOLD,
            "Time from the acquire until the lock was released or lost.",
        ),
    ] {
        super::tell(move || {
            metrics::describe_histogram!(name, Unit::Seconds, help);
            // Registers it.
            drop(metrics::histogram!(name));
        });
    }
}

#[cfg(not(feature = "metrics"))]
pub(crate) fn register() {}

/// Adds `n` in the facade, if that is built in.
fn change(series: Series, n: i64) {
    if cfg!(feature = "metrics") {
        super::reporter::count(series, n);
    }
}
