//! How a client that stands in the line of a lock waits.
//!
//! The release calls the first client, so a waiting thread sleeps until then. It also asks when the
//! lease of the owner may have ended, and in case that a client that was called does not answer:
//! its process is stopped, or its host is gone. Then a client behind it takes the lock.

use std::time::Duration;

use super::acquisition::HeldByOther;

/// The longest sleep. The line in Redis is kept for three times this after each request.
pub(super) const LONGEST: Duration = Duration::from_secs(30);

/// For how long a free lock is reserved for a client that was called (`lua/shared/line.lua`).
const RESERVED: Duration = Duration::from_millis(500);

/// The mean time between the requests of all clients in a line for each of them. So the rate of
/// their requests does not depend on their number.
const SPACING: Duration = Duration::from_millis(100);

/// When a thread that waits in a line asks without being called.
#[derive(Debug, Default)]
pub(super) struct Polls {
    /// The last sleep that no call ended.
    last: Duration,
}

impl Polls {
    /// How long the thread sleeps at most. `random` is between 0 and 1.
    pub(super) fn next(&self, held: &HeldByOther<'_>, random: f32) -> Duration {
        let Some(rank) = held.rank else {
            return held.left;
        };
        // Those that are further behind ask later when the lease ends.
        let lease_ends = held.left + Duration::from_millis(rank.into());
        let longest = lease_ends.min(LONGEST);
        match rank {
            0 => longest,
            _ => {
                let spread = SPACING * rank * 2;
                let poll = RESERVED + spread.mul_f32(random);
                longest.min(poll.max(self.last * 2))
            }
        }
    }

    /// Records that no call ended a sleep of this length.
    pub(super) fn elapsed(&mut self, slept: Duration) {
        self.last = slept;
    }
}
