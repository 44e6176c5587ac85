//! The clock of one client: the real one, or for the clients of an in-memory server one whose time
//! a test skips. Without the feature `testing` it has no size and does nothing.

#[cfg(feature = "testing")]
pub(crate) use leasehold_testing::clock::{Active, Asleep, ClientClock, Skip};

#[cfg(not(feature = "testing"))]
pub(crate) use real::{Active, Asleep, ClientClock, Skip};

/// The same names as those of the crate `leasehold-testing`, which describes them.
#[cfg(not(feature = "testing"))]
mod real {
    use std::sync::Arc;
    use std::time::Duration;

    #[derive(Clone, Debug, Default)]
    pub(crate) struct ClientClock(());

    impl ClientClock {
        pub(crate) fn add_watchdog<T>(&self, _: &Arc<T>) {}

        #[inline]
        pub(crate) fn skipped_since(&self, _: Duration) -> Duration {
            Duration::ZERO
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Active(());

    impl Active {
        #[inline]
        pub(crate) fn by_call(_: &ClientClock) -> Self {
            Self(())
        }

        #[inline]
        pub(crate) fn by_own_thread(_: &ClientClock) -> Self {
            Self(())
        }
    }

    pub(crate) struct Asleep(());

    impl Asleep {
        #[inline]
        pub(crate) fn begin<T>(_: &Arc<T>) -> Self {
            Self(())
        }
    }

    pub(crate) trait Skip {}

    impl<T> Skip for T {}
}
