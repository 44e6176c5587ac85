//! The queue that all clients of a process share.

use std::sync::{Arc, OnceLock};

use super::LocalQueue;
use crate::base::process::Process;

/// The queue of one process. A forked child has a queue of its own, because a mutex of its parent
/// may stay locked indefinitely.
struct Shared {
    process: Process,
    queue: Arc<LocalQueue>,
    of_child: OnceLock<Box<Self>>,
}

static SHARED: OnceLock<Box<Shared>> = OnceLock::new();

impl LocalQueue {
    /// The queue of this process.
    pub(crate) fn shared() -> Arc<Self> {
        let mut place = &SHARED;
        loop {
            let shared = place.get_or_init(|| {
                Box::new(Shared {
                    process: Process::current(),
                    queue: Arc::default(),
                    of_child: OnceLock::new(),
                })
            });
            if shared.process.is_current() {
                return Arc::clone(&shared.queue);
            }
            place = &shared.of_child;
        }
    }
}
