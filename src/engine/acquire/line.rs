//! How long a thread that waits in the line of a lock sleeps if no message comes.
//!
//! A release calls the first client. If that does not come, or the line is lost, the looks of the
//! watchdog notice it (`watchdog/lines.rs`). So a thread asks without being called only when the
//! lease of the owner may have ended, or if its client may not subscribe.

use std::time::Duration;

use crate::base::backoff::jitter;

/// The longest sleep.
pub(in crate::engine) const LONGEST: Duration = Duration::from_secs(300);

/// The longest sleep of a thread that is in no line: another program can change what it waits for
/// without a message.
pub(in crate::engine) const RARELY: Duration = Duration::from_secs(30);

/// A random time up to [`RARELY`], so that waiting threads do not all send a request at the same
/// time.
pub(in crate::engine) fn rare_sleep() -> Duration {
    jitter(RARELY * 2 / 3)
}

/// The number of clients that ask when the lease of the owner ends.
const NEAR: u32 = 10;

/// The time between the requests of two neighbours in a line when the lease of the owner ends.
const SPACING: Duration = Duration::from_millis(10);

/// How long a thread sleeps at most if `rank` clients are before it and the lease of the owner ends
/// in `left`.
pub(in crate::engine) fn longest_sleep(rank: u32, left: Duration) -> Duration {
    match rank {
        0..NEAR => (left + SPACING * rank).min(LONGEST),
        _ => LONGEST,
    }
}

/// The longest sleep of a thread whose client may not subscribe.
const LONGEST_DEAF: Duration = Duration::from_millis(250);

/// How long the thread of a client sleeps that may not subscribe. The lock is reserved for such a
/// client for half a second when its turn comes, so it asks often if that may be soon.
pub(in crate::engine) fn deaf_sleep(rank: u32) -> Duration {
    let millis = match rank {
        0..3 => 10,
        3..16 => 20,
        _ => rank.saturating_mul(10),
    };
    Duration::from_millis(millis.into()).min(LONGEST_DEAF)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_first_clients_ask_when_the_lease_ends_one_after_another() {
        assert_eq!(longest_sleep(0, MS(20_000)), MS(20_000));
        assert_eq!(longest_sleep(3, MS(20_000)), MS(20_030));
        assert_eq!(longest_sleep(0, MS(3_600_000)), LONGEST);
        assert_eq!(longest_sleep(NEAR, MS(20_000)), LONGEST);
    }

    #[test]
    fn a_client_that_may_not_subscribe_asks_often_if_its_turn_may_come_soon() {
        let sleeps = [0, 2, 3, 15, 16, 1_000].map(deaf_sleep);
        assert_eq!(sleeps, [10, 10, 20, 20, 160, 250].map(MS));
    }

    #[test]
    fn a_thread_that_knows_of_no_lease_sleeps_for_half_a_minute_at_most() {
        for _ in 0..1000 {
            let longest = rare_sleep();
            assert!((RARELY / 3..=RARELY).contains(&longest), "{longest:?}");
        }
    }
}
