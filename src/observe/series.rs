//! One counter of the `metrics` facade.

/// The name and the label of a counter in the facade. No label contains the name of a lock, because
/// there may be millions of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) label: Option<(&'static str, &'static str)>,
}

impl Series {
    /// Adds `n` in the metrics recorder.
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
