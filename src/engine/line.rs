//! How a client stands in the line of a lock while one of its threads waits, and how long the
//! thread sleeps if no message comes.
//!
//! A release calls the first client. If that does not come, or the line is lost, the looks of the
//! watchdog notice it (`watchdog/lines.rs`). So a thread asks without being called only when the
//! lease of the owner may have ended, or if its client may not subscribe.

use std::sync::Arc;
use std::time::Duration;

use super::wait::Channel;
use crate::base::{List, LockKey, Unparker, jitter};
use crate::core::Core;
use crate::local::Claim;
use crate::protocol::Standing;
use crate::protocol::message::is_deaf;
use crate::watchdog::{LineWait, LineWaiter};

/// Where this client stands in the line of a lock: in one call, of the thread with the ticket.
pub(super) struct InLine<'a> {
    core: &'a Core,
    key: &'a LockKey,
    /// The place of the client; `None` if the call stands in no line.
    place: Option<Arc<str>>,
    /// Redis may know that the client waits: in the line, or in the queue of a fair lock.
    pub(super) is_known: bool,
    /// The last request had no reply, and may be executed later.
    pub(super) is_unanswered: bool,
    /// While the watchdog looks after the place.
    watched: Option<LineWait<'a>>,
    /// How often the thread slept in a queue without ranks, and without a subscription.
    deaf_sleeps: u32,
}

impl<'a> InLine<'a> {
    /// `is_inherited`: another thread of the client may have left the place to this one.
    pub(super) fn new(
        core: &'a Core,
        key: &'a LockKey,
        place: Option<Arc<str>>,
        is_inherited: bool,
    ) -> Self {
        Self {
            core,
            key,
            place,
            is_known: is_inherited,
            is_unanswered: false,
            watched: None,
            deaf_sleeps: 0,
        }
    }

    /// True if the call stands in a line, or will.
    pub(super) fn has_place(&self) -> bool {
        self.place.is_some()
    }

    /// The place as it stands in the line: with a sign if the client may not subscribe now.
    pub(super) fn place(&self) -> Option<Arc<str>> {
        let place = self.place.as_ref();
        place.map(|place| self.core.subscriber.in_line(self.key, place))
    }

    /// True if the client has a place, and receives no calls.
    pub(super) fn is_deaf(&self) -> bool {
        self.place().is_some_and(|place| is_deaf(&place))
    }

    /// True if this thread may have the place of the client in the line, and another thread of the
    /// client wants the lock. The place stays for that thread.
    pub(super) fn is_for_others(&self, claim: &Claim) -> bool {
        self.is_known && claim.is_wanted_by_others()
    }

    /// The client may be called although no thread listens for the call.
    pub(super) fn expect_call(&self) {
        if let Some(place) = &self.place {
            self.core.subscriber.expect_call(self.key, place);
        }
    }

    /// Notes whether the client is in the line, according to a refusal.
    pub(super) fn refused(&mut self, standing: Standing) {
        if self.place.is_some() {
            self.is_known = standing.rank.is_some();
        }
    }

    /// The channels on which a refused thread listens: for calls in a line, else for releases.
    pub(super) fn channels(&self, standing: Standing) -> List<Channel<'a>> {
        let channel = Channel::of(self.core, self.key);
        if standing.rank.is_none() {
            return List::from_buf([channel]);
        }
        let mut channels = List::from_buf([channel.called(standing.asked)]);
        if standing.listens {
            channels.push(channel.except_calls());
        }
        channels
    }

    /// Lets the watchdog look after the place while the thread sleeps. In no line, a look would
    /// find nothing. `pending`: the lock is reserved for this time for clients that were called and
    /// have not answered.
    pub(super) fn watch(
        &mut self,
        standing: Standing,
        has_lease: bool,
        pending: Option<Duration>,
        unparker: &Unparker,
    ) {
        self.watched = standing.rank.zip(self.place()).map(|(rank, place)| {
            let waiter = LineWaiter {
                place,
                listens: standing.listens,
                has_lease,
                unparker: unparker.clone(),
            };
            let watchdog = &self.core.watchdog;
            watchdog.wait_in_line(self.key, waiter, rank, standing.asked, pending)
        });
    }

    /// How long the thread sleeps in a queue without ranks if its client may not subscribe. The
    /// longer it waits, the more clients may be before it.
    pub(super) fn next_deaf_sleep(&mut self) -> Duration {
        self.deaf_sleeps += 1;
        deaf_sleep(self.deaf_sleeps)
    }

    /// The call has got what it waited for.
    pub(super) fn granted(self) {
        self.watched.into_iter().for_each(LineWait::granted);
    }
}

/// The longest sleep.
pub(super) const LONGEST: Duration = Duration::from_secs(300);

/// The longest sleep of a thread that is in no line: another program can change what it waits for
/// without a message.
pub(super) const RARELY: Duration = Duration::from_secs(30);

/// A random time up to [`RARELY`], so that waiting threads do not all send a request at the same
/// time.
pub(super) fn rare_sleep() -> Duration {
    jitter(RARELY * 2 / 3)
}

/// The number of clients that ask when the lease of the owner ends.
const NEAR: u32 = 10;

/// The time between the requests of two neighbours in a line when the lease of the owner ends.
const SPACING: Duration = Duration::from_millis(10);

/// How long a thread sleeps at most if `rank` clients are before it and the lease of the owner ends
/// in `left`.
pub(super) fn longest_sleep(rank: u32, left: Duration) -> Duration {
    match rank {
        0..NEAR => (left + SPACING * rank).min(LONGEST),
        _ => LONGEST,
    }
}

/// The longest sleep of a thread whose client may not subscribe.
const LONGEST_DEAF: Duration = Duration::from_millis(250);

/// How long the thread of a client sleeps that may not subscribe. The lock is reserved for such a
/// client for half a second when its turn comes, so it asks often if that may be soon.
pub(super) fn deaf_sleep(rank: u32) -> Duration {
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
