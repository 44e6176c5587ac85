//! The time that a test skips for the clients of an in-memory server: see `leasehold::testing`.
//! Without the feature of that name, a [`ClientClock`] has no size and does nothing.
//!
//! All moments are those of the real clock, because sockets and pauses need it. A test that skips
//! ten seconds makes each moment of a lease or of a call's budget ten seconds earlier.

#[cfg(feature = "testing")]
mod skips;

use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::parker::Unparker;
#[cfg(feature = "testing")]
pub(crate) use skips::{TestClock, TestedWatchdog};

/// The clock of one client.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientClock {
    #[cfg(feature = "testing")]
    test: Option<std::sync::Arc<TestClock>>,
}

/// Removes its unparker from the clock when it is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    #[cfg(feature = "testing")]
    call: Option<(std::sync::Arc<TestClock>, Unparker)>,
}

#[cfg(not(feature = "testing"))]
impl ClientClock {
    #[inline]
    pub(crate) fn skipped_since(&self, _: Moment) -> Duration {
        Duration::ZERO
    }

    #[inline]
    pub(crate) fn is_cut_off(&self) -> bool {
        false
    }

    #[inline]
    pub(crate) fn register(&self, _: &Unparker) -> Registered {
        Registered {}
    }
}

#[cfg(feature = "testing")]
impl ClientClock {
    pub(crate) fn of(test: std::sync::Arc<TestClock>) -> Self {
        Self { test: Some(test) }
    }

    pub(crate) fn test(&self) -> Option<&std::sync::Arc<TestClock>> {
        self.test.as_ref()
    }

    /// The time that was skipped since this moment.
    pub(crate) fn skipped_since(&self, moment: Moment) -> Duration {
        let test = self.test.as_ref();
        test.map_or(Duration::ZERO, |test| test.skipped_since(moment))
    }

    /// True while the test makes the server unavailable.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.test.as_ref().is_some_and(|test| test.is_cut_off())
    }

    /// Wakes this thread, which makes a call, whenever time is skipped.
    pub(crate) fn register(&self, unparker: &Unparker) -> Registered {
        let call = self.test.as_ref().map(|test| {
            test.add_call(unparker);
            (std::sync::Arc::clone(test), unparker.clone())
        });
        Registered { call }
    }
}

#[cfg(feature = "testing")]
impl Drop for Registered {
    fn drop(&mut self) {
        if let Some((test, unparker)) = &self.call {
            test.remove_call(unparker);
        }
    }
}
