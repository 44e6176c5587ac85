//! Asks Redis whether it still has the lock, more often than the lock is renewed.

use std::thread::{Builder, Scope};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use super::held::Held;
use crate::outcome::{Failure, Result};

/// The time between two requests. A lock that was deleted is noticed within it, if the servers
/// reply.
pub(super) fn beat(lease: Duration) -> Duration {
    (lease / 10).min(Duration::from_secs(1))
}

/// Asks on a thread of `scope` until the returned sender is dropped. The guard reports a loss
/// itself.
pub(super) fn start<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    held: &'env Held,
    beat: Duration,
) -> Result<Sender<()>> {
    let (stop, stopped) = bounded(0);
    Builder::new()
        .name("leasehold-heartbeat".into())
        .spawn_scoped(scope, move || {
            while stopped.recv_timeout(beat) == Err(RecvTimeoutError::Timeout) {
                // The guard reports a loss. Without a reply nothing is known.
                let _ = held.confirm();
            }
        })
        .map_err(Failure::no_thread)?;
    Ok(stop)
}
