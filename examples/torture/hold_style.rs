//! How a thread holds its lock: with a guard, or with manual `lock` and `unlock` calls.

use leasehold::{FencedGuard, FencedLock};

pub enum HoldStyle {
    Guard(FencedGuard),
    Manual,
}

impl HoldStyle {
    /// Returns false if this process knows that the lock is lost.
    pub fn is_valid(&self, lock: &FencedLock) -> bool {
        match self {
            Self::Guard(guard) => guard.check().is_ok(),
            Self::Manual => lock.is_held_by_current_thread(),
        }
    }

    /// The fencing token; manual calls return none.
    pub fn token(&self) -> Option<u64> {
        match self {
            Self::Guard(guard) => Some(guard.fencing_token()),
            Self::Manual => None,
        }
    }
}
