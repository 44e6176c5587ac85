//! Recognizes a client that acquires a lock again at once whenever it has released it. No I/O and
//! no clock.
//!
//! The request of such a client nearly always reaches the server before the request of a client
//! that has to hear of the release first. A client of this library does not do so while others
//! listen, but other clients do. So a thread that waits for such a client requests the lock some
//! times near the expected end of a hold: then one of the requests may be at the server when the
//! lock is free.

use std::ops::Range;
use std::time::Duration;

use crate::base::clock::Moment;

/// Near the end of longer holds, nothing is requested: the end is not known well enough.
const LONGEST_HOLD: Duration = Duration::from_millis(20);

/// The least time for which requests go on after the expected end of a hold.
const MARGIN: Duration = Duration::from_millis(1);

/// What a waiting thread knows of the holds of other clients.
#[derive(Debug, Default)]
pub(super) struct Rival {
    /// The client that holds the lock.
    client: Option<String>,
    /// When the last release was announced.
    released: Option<Moment>,
    /// The time between the last two releases.
    hold: Option<Duration>,
    /// There has been no reply since the last release.
    is_open: bool,
    /// The same client has acquired the lock again after its release.
    is_back: bool,
}

impl Rival {
    /// Records a message about a release.
    pub(super) fn released(&mut self, now: Moment) {
        self.hold = self.released.map(|last| now.since(last));
        self.released = Some(now);
        self.is_open = true;
    }

    /// Records that the lock is held by this owner.
    pub(super) fn holds(&mut self, owner: &str) {
        // The owner id of a client begins with its UUID.
        let client = owner.split(':').next();
        let is_same = self.client.as_deref() == client;
        if std::mem::take(&mut self.is_open) || !is_same {
            self.is_back = is_same;
        }
        if !is_same {
            self.client = client.map(Into::into);
        }
    }

    /// When to request the lock again and again, without a message; `None` if the lock goes from
    /// client to client, or is held for long.
    pub(super) fn end_of_hold(&self) -> Option<Range<Moment>> {
        let (released, hold) = (self.released?, self.hold?);
        (self.is_back && hold <= LONGEST_HOLD).then(|| {
            let end = released.after(hold);
            end.before(hold / 8)..end.after(hold / 4 + MARGIN)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::ZERO.after(Duration::from_millis(millis))
    }

    #[test]
    fn a_client_that_always_comes_back_is_expected_to_release_in_the_same_time() {
        let mut rival = Rival::default();
        rival.holds("other:1");
        rival.released(at(100));
        rival.holds("other:2");
        assert_eq!(
            rival.end_of_hold(),
            None,
            "the length of a hold is not known"
        );
        rival.released(at(108));
        rival.holds("other:3");
        let range = rival.end_of_hold().unwrap();
        assert_eq!((range.start, range.end), (at(115), at(119)));
        // Refusals near the end of the hold change nothing.
        rival.holds("other:3");
        assert!(rival.end_of_hold().is_some());
    }

    #[test]
    fn a_lock_that_goes_from_client_to_client_is_requested_after_messages_only() {
        let mut rival = Rival::default();
        for millis in 1..6 {
            rival.holds(["one:1", "two:1"][millis as usize % 2]);
            rival.released(at(millis * 2));
            assert_eq!(rival.end_of_hold(), None);
        }
    }

    #[test]
    fn long_holds_have_no_expected_end() {
        let mut rival = Rival::default();
        for millis in [0, 100, 200] {
            rival.holds("other:1");
            rival.released(at(millis));
        }
        rival.holds("other:1");
        assert_eq!(rival.end_of_hold(), None);
    }
}
