//! The time that a test skips for the clients of an in-memory server: see `leasehold::testing`.
//! Without the feature of that name, a [`ClientClock`] has no size and does nothing.
//!
//! All moments are those of the real clock, because sockets and pauses need it. A test that skips
//! ten seconds makes each moment of a lease or of a call's budget ten seconds earlier.
//!
//! A lease counts from before its request, and is known to the watchdog after the reply. A skip
//! between these two moments would not reach it. So a test skips time only while no thread is
//! [`Entered`]: all calls have ended or sleep, and the watchdogs wait.
//!
//! A skip moves the clock of the server first, so no lease is longer for its holder than on the
//! server. Then the targets of the watchdogs and the budgets of calls subtract it, once each. Last,
//! the test waits until the watchdogs have nothing to do and the threads sleep again.

#[cfg(feature = "testing")]
mod entered;
#[cfg(feature = "testing")]
mod skips;

#[cfg(feature = "testing")]
pub(crate) use entered::{Entered, Parked};
#[cfg(feature = "testing")]
pub(crate) use skips::{Stopped, TestClock, TestedWatchdog};

/// The clock of one client.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientClock {
    #[cfg(feature = "testing")]
    test: Option<std::sync::Arc<TestClock>>,
}

#[cfg(not(feature = "testing"))]
mod without_tests {
    use std::time::Duration;

    use super::ClientClock;
    use crate::base::clock::Moment;
    use crate::base::parker::Unparker;

    #[derive(Debug, Default)]
    pub(crate) struct Entered(());

    pub(crate) struct Parked;

    impl ClientClock {
        #[inline]
        pub(crate) fn skipped_since(&self, _: Moment) -> Duration {
            Duration::ZERO
        }
    }

    impl Entered {
        #[inline]
        pub(crate) fn by_call(_: &ClientClock) -> Self {
            Self(())
        }

        #[inline]
        pub(crate) fn by_own_thread(_: &ClientClock) -> Self {
            Self(())
        }
    }

    impl Parked {
        #[inline]
        pub(crate) fn begin(_: &Unparker) -> Self {
            Self
        }
    }
}

#[cfg(not(feature = "testing"))]
pub(crate) use without_tests::{Entered, Parked};

#[cfg(feature = "testing")]
impl ClientClock {
    pub(crate) fn of(test: std::sync::Arc<TestClock>) -> Self {
        Self { test: Some(test) }
    }

    pub(crate) fn test(&self) -> Option<&std::sync::Arc<TestClock>> {
        self.test.as_ref()
    }

    /// The time that was skipped since this moment.
    pub(crate) fn skipped_since(&self, moment: crate::base::clock::Moment) -> std::time::Duration {
        let test = self.test.as_ref();
        test.map_or_else(Default::default, |test| test.skipped_since(moment))
    }
}
