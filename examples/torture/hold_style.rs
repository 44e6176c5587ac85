//! How a thread holds its lock: with a guard, or by hand.

use leasehold::{FencedGuard, FencedLock};

pub enum HoldStyle {
    Guard(FencedGuard),
    Manual,
}

impl HoldStyle {
    /// Whether this process knows of no reason why the lock should not be held.
    pub fn stands(&self, lock: &FencedLock) -> bool {
        match self {
            Self::Guard(guard) => guard.check().is_ok(),
            Self::Manual => lock.is_held_by_current_thread(),
        }
    }

    /// Whoever holds a lock by hand has none to show.
    pub fn token(&self) -> Option<u64> {
        match self {
            Self::Guard(guard) => Some(guard.fencing_token()),
            Self::Manual => None,
        }
    }
}
