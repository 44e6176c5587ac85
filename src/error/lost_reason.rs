//! Why a held lock was lost.

use std::fmt;

/// How a held lock was lost, or why a hold that was given away was not taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The lease may have expired on the server, by this process's clock: either it was a fixed
    /// lease, or no renewal was confirmed in time, or the thread has ended without unlocking.
    Expired,
    /// Redis replied that the key does not exist: it was deleted, evicted or flushed, or the lock
    /// was released by [`force_unlock`](crate::LockClient::force_unlock).
    Deleted,
    /// Redis replied that another client or thread holds the lock.
    Taken,
    /// The limit of [`Lease::renewed_at_most`](crate::Lease::renewed_at_most) or
    /// [`Lease::held_at_most`](crate::Lease::held_at_most) is reached. About a
    /// third of the last lease is left.
    RenewalLimit,
    /// The client was shut down while a thread held the lock: see
    /// [`LockClient::shutdown`](crate::LockClient::shutdown).
    ShutDown,
    /// [`LockClient::adopt`](crate::LockClient::adopt) found that the lock or the permit is not
    /// held under this token any more: the token was used before, the lease has ended, or the lock
    /// was released by [`force_unlock`](crate::LockClient::force_unlock). This process held
    /// nothing.
    TokenSpent,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease expired",
            Self::Deleted => "its key was deleted",
            Self::Taken => "another client or thread acquired it",
            Self::RenewalLimit => "its renewal limit is reached",
            Self::ShutDown => "its client was shut down",
            Self::TokenSpent => "its token was used before, or its lease has ended",
        })
    }
}
