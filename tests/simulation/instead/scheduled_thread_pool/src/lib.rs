//! What the library uses of `scheduled-thread-pool`: only to build a pool for `r2d2`, whose
//! replacement starts a thread for each connection that it opens.

/// What happens to jobs that have not begun.
#[derive(Clone, Copy, Debug)]
pub enum OnPoolDropBehavior {
    /// They never begin.
    DiscardPendingScheduled,
}

/// A pool without threads.
#[derive(Debug)]
pub struct ScheduledThreadPool;

/// Builds a [`ScheduledThreadPool`].
#[derive(Debug)]
pub struct Builder;

impl ScheduledThreadPool {
    /// A builder.
    #[must_use]
    pub fn builder() -> Builder {
        Builder
    }
}

impl Builder {
    /// Ignored.
    #[must_use]
    pub fn num_threads(self, _: usize) -> Self {
        self
    }

    /// Ignored.
    #[must_use]
    pub fn thread_name_pattern(self, _: &str) -> Self {
        self
    }

    /// Ignored: the replacement of `r2d2` does so.
    #[must_use]
    pub fn on_drop_behavior(self, _: OnPoolDropBehavior) -> Self {
        self
    }

    /// The pool.
    #[must_use]
    pub fn build(self) -> ScheduledThreadPool {
        ScheduledThreadPool
    }
}
