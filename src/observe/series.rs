//! One counter or gauge of the `metrics` facade.

/// The name of a label, and one of its values.
pub(super) type Label = (&'static str, &'static str);

/// The name and the label of a counter or a gauge in the facade. No label contains the name of a
/// lock, because there may be millions of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) label: Option<Label>,
    /// It also decreases.
    pub(super) is_gauge: bool,
}

impl Series {
    pub(super) fn counter(name: &'static str, label: Option<Label>) -> Self {
        Self {
            name,
            label,
            is_gauge: false,
        }
    }

    pub(super) fn gauge(name: &'static str) -> Self {
        Self {
            name,
            label: None,
            is_gauge: true,
        }
    }

    /// Adds `n` in the metrics recorder.
    #[cfg(feature = "metrics")]
    pub(super) fn record(self, n: i64) {
        if self.is_gauge {
            metrics::gauge!(self.name).increment(n as f64);
            return;
        }
        let counter = match self.label {
            Some((label, value)) => metrics::counter!(self.name, label => value),
            None => metrics::counter!(self.name),
        };
        counter.increment(n.unsigned_abs());
    }

    #[cfg(not(feature = "metrics"))]
    pub(super) fn record(self, _: i64) {}
}
