//! The label of waits and holds, which the application makes from the name of a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::LockKey;

type LabelOf = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// The application's function from the name of a lock to its label, if there is one.
#[derive(Clone, Default)]
pub(crate) struct MetricLabel(Option<LabelOf>);

impl MetricLabel {
    #[cfg(feature = "metrics")]
    pub(crate) fn new(label: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(label)))
    }

    /// Records a time in the facade. The function is called where the recorder is called: not on a
    /// thread of the client, and with its panics caught.
    #[cfg(feature = "metrics")]
    pub(super) fn record(
        &self,
        name: &'static str,
        lock: &LockKey,
        time: impl FnOnce() -> Duration,
    ) {
        let time = time();
        let label = self.0.clone().map(|label| (label, lock.shared_name()));
        super::tell(move || match label {
            Some((label, lock)) => {
                let mut value = String::new();
                super::reporter::run(|| value = label(&lock));
                metrics::histogram!(name, "lock" => value).record(time);
            }
            None => metrics::histogram!(name).record(time),
        });
    }

    #[cfg(not(feature = "metrics"))]
    pub(super) fn record(&self, _: &str, _: &LockKey, _: impl FnOnce() -> Duration) {}
}

impl fmt::Debug for MetricLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.is_some().fmt(f)
    }
}
