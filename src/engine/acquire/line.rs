//! How a client that stands in the line of a lock waits.
//!
//! The release calls the first client, so a waiting thread sleeps until then. It also asks when the
//! lease of the owner may have ended, and in case that a client that was called does not answer:
//! its process is stopped, or its host is gone. Then a client behind it takes the lock.

use std::time::Duration;

use crate::base::backoff::jitter;

/// The longest sleep. The line in Redis is kept for three times this after each request.
pub(in crate::engine) const LONGEST: Duration = Duration::from_secs(30);

/// A random time up to [`LONGEST`], so that waiting threads do not all send a request at the same
/// time: the longest sleep of a thread that knows of no lease that ends.
pub(in crate::engine) fn longest_sleep() -> Duration {
    jitter(LONGEST * 2 / 3)
}

/// For how long a free lock is reserved for a client that was called (`lua/shared/line.lua`).
const RESERVED: Duration = Duration::from_millis(500);

/// The mean time between the first requests of two neighbours in a line, if no call comes.
const SPACING: Duration = Duration::from_millis(100);

/// The same when the lease of the owner ends.
const SPACING_AT_THE_END: Duration = Duration::from_millis(10);

/// When a thread that waits in a line asks without being called.
#[derive(Debug, Default)]
pub(in crate::engine) struct Polls {
    /// The last sleep that no call ended.
    last: Duration,
}

impl Polls {
    /// How long a thread sleeps at most if `rank` clients are before it and the lease of the owner
    /// ends in `left`. `random` is between 0 and 1.
    pub(in crate::engine) fn next(&self, rank: u32, left: Duration, random: f32) -> Duration {
        // Those that are further behind ask later when the lease ends.
        let lease_ends = left + SPACING_AT_THE_END * rank;
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
    pub(in crate::engine) fn elapsed(&mut self, slept: Duration) {
        self.last = slept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_first_client_sleeps_until_the_lease_ends() {
        let polls = Polls::default();
        assert_eq!(polls.next(0, MS(20_000), 0.5), MS(20_000));
        assert_eq!(polls.next(0, MS(3_600_000), 0.5), LONGEST);
    }

    #[test]
    fn a_thread_that_knows_of_no_lease_sleeps_for_half_a_minute_at_most() {
        for _ in 0..1000 {
            let longest = longest_sleep();
            assert!((LONGEST / 3..=LONGEST).contains(&longest), "{longest:?}");
        }
    }

    #[test]
    fn clients_further_behind_sleep_longer_and_each_sleep_doubles() {
        for clients in [10, 100, 250] {
            let polls = Polls::default();
            // All were refused when they were the last.
            let time = (polls.next(clients, LONGEST, 0.5) - RESERVED) / clients;
            assert_eq!(time, SPACING);
        }
        let mut polls = Polls::default();
        assert_eq!(polls.next(1, MS(20_000), 0.0), RESERVED);
        polls.elapsed(RESERVED);
        assert_eq!(polls.next(1, MS(20_000), 0.0), RESERVED * 2);
    }
}
