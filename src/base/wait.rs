//! Waits for a condition with a deadline.

use std::time::Duration;

use parking_lot::{Condvar, MutexGuard};

use crate::base::Moment;

/// `Condvar` cannot wait for any length of time.
const LONGEST: Duration = Duration::from_secs(3600);

/// Waits until `is_done`, at most until this moment. `changed` is notified of every change. True if
/// it is done.
pub(crate) fn wait_for_state<T>(
    changed: &Condvar,
    state: &mut MutexGuard<'_, T>,
    until: Moment,
    is_done: impl Fn(&T) -> bool,
) -> bool {
    while !is_done(state) && !until.is_past() {
        changed.wait_for(state, until.left().min(LONGEST));
    }
    is_done(state)
}
