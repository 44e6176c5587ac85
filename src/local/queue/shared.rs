//! The queue that all clients of a process share.

use std::sync::{Arc, OnceLock};

use super::LocalQueue;
use crate::base::process::PerProcess;

static SHARED: OnceLock<PerProcess<Arc<LocalQueue>>> = OnceLock::new();

impl LocalQueue {
    /// The queue of this process.
    pub(crate) fn shared() -> Arc<Self> {
        Arc::clone(SHARED.get_or_init(PerProcess::default).get())
    }
}
