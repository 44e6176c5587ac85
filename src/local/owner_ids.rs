//! The owner ids under which Redis may have a hold, while a count has no reply. No I/O.
//!
//! Redis may execute two requests that write a count in any order. So while one has no reply, the
//! next one moves the hold to a new owner id, which the earlier request does not contain. It finds
//! the hold under any of the owner ids that it may have.

use std::time::Duration;

use crate::base::backoff::Backoff;
use crate::base::clock::Moment;
use crate::base::owner::OwnerId;

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct OwnerIds {
    /// All owner ids that the hold may have in Redis, newest first.
    owner: OwnerId,
    /// Redis cannot execute a request to the newest owner id any more.
    is_newest_free: bool,
    /// The thread of the hold is writing a count.
    counting: bool,
    /// When the watchdog writes the count if the thread does not, and the pauses between its
    /// attempts.
    settle_at: Moment,
    pauses: Backoff,
    /// The watchdog writes the count to the newest owner id.
    settling: bool,
}

/// The result of writing a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    No,
    /// At least one copy of the request has no reply.
    Unknown,
}

impl OwnerIds {
    pub(super) fn new(owner: OwnerId) -> Self {
        Self {
            owner,
            is_newest_free: false,
            counting: false,
            settle_at: Moment::ZERO,
            pauses: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            settling: false,
        }
    }

    pub(super) fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// The thread begins to write a count. Returns the owner id to write.
    pub(super) fn begin(&mut self) -> OwnerId {
        self.counting = true;
        self.settling = false;
        if self.owner.is_uncertain() {
            self.take_free_id();
        }
        self.owner.clone()
    }

    /// Makes sure that no request to the newest owner id may be executed later.
    fn take_free_id(&mut self) {
        if !std::mem::take(&mut self.is_newest_free) {
            self.owner = self.owner.with_fresh_name();
        }
    }

    /// The owner id to write in another copy of the request that was begun for `begun`, after a
    /// copy without a reply. All further copies have the same owner id: Redis executes one of them,
    /// and the others find the count written.
    pub(super) fn retry(&mut self, begun: &OwnerId) -> OwnerId {
        if !begun.is_uncertain() && self.owner == *begun {
            self.owner = self.owner.with_fresh_name();
        }
        self.owner.clone()
    }

    /// Ends what [`begin`](Self::begin) began.
    pub(super) fn end(&mut self, written: Written) {
        self.counting = false;
        match written {
            Written::Yes => self.confirmed(),
            Written::Unknown if !self.owner.is_uncertain() => {
                self.owner = self.owner.with_fresh_name();
                self.is_newest_free = true;
            }
            Written::Unknown => {}
            Written::No => self.is_newest_free = self.owner.is_uncertain(),
        }
    }

    /// Redis has the hold under the newest owner id.
    fn confirmed(&mut self) {
        *self = Self::new(self.owner.split().0);
    }

    /// When the watchdog writes the count: set if the count in Redis is unknown and the thread is
    /// not writing it.
    pub(super) fn due(&self) -> Option<Moment> {
        let is_unsettled = self.owner.is_uncertain() && !self.counting;
        is_unsettled.then_some(self.settle_at)
    }

    /// The owner id that the watchdog writes now, if the count is due. All its attempts have the
    /// same owner id.
    pub(super) fn settle(&mut self, now: Moment) -> Option<OwnerId> {
        self.due().filter(|&due| due <= now)?;
        if !self.settling {
            self.settling = true;
            self.take_free_id();
        }
        self.settle_at = now.after(self.pauses.next());
        Some(self.owner.clone())
    }

    /// The watchdog wrote the count for `owner`. Does nothing if the thread has begun another count
    /// meanwhile, because that one decides then.
    pub(super) fn settled(&mut self, owner: &OwnerId) {
        if self.owner == *owner {
            self.confirmed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn owner_ids() -> (OwnerIds, OwnerId) {
        let owner = OwnerId::current(&Uuid::new_v4());
        (OwnerIds::new(owner.clone()), owner)
    }

    #[test]
    fn a_count_with_a_reply_keeps_the_owner_id() {
        let (mut owner_ids, owner) = owner_ids();
        assert_eq!(owner_ids.begin(), owner);
        owner_ids.end(Written::Yes);
        assert_eq!(*owner_ids.owner(), owner);
        assert_eq!(owner_ids.due(), None);
    }

    #[test]
    fn all_further_copies_of_a_count_have_one_new_owner_id() {
        let (mut owner_ids, owner) = owner_ids();
        let begun = owner_ids.begin();
        let second = owner_ids.retry(&begun);
        assert_ne!(second.split().0, owner);
        assert!(second.covers(&owner), "Redis may still have the first");
        assert_eq!(owner_ids.retry(&begun), second);
        // A renewal meanwhile names both owner ids, and writes no count.
        assert_eq!(*owner_ids.owner(), second);
        assert_eq!(owner_ids.settle(Moment::now()), None);
        owner_ids.end(Written::Yes);
        assert_eq!(*owner_ids.owner(), second.split().0);
    }

    #[test]
    fn after_a_count_without_a_reply_the_next_moves_the_hold() {
        let (mut owner_ids, owner) = owner_ids();
        owner_ids.begin();
        owner_ids.end(Written::Unknown);
        assert_eq!(owner_ids.due(), Some(Moment::ZERO));
        let next = owner_ids.begin();
        assert!(next.covers(&owner) && next.split().0 != owner);
        assert_eq!(
            owner_ids.retry(&next),
            next,
            "it has a new owner id already"
        );
        owner_ids.end(Written::No);
        assert!(owner_ids.due().is_some(), "still");
    }

    #[test]
    fn the_watchdog_writes_a_count_that_the_thread_left_unknown() {
        let (mut owner_ids, owner) = owner_ids();
        owner_ids.begin();
        owner_ids.end(Written::Unknown);
        let now = Moment::now();
        let asked = owner_ids.settle(now).unwrap();
        assert!(asked.covers(&owner) && asked.split().0 != owner);
        assert_eq!(owner_ids.settle(now), None, "not again at once");
        let again = owner_ids.due().unwrap();
        assert_eq!(
            owner_ids.settle(again).unwrap(),
            asked,
            "no further owner id"
        );
        assert!(owner_ids.due().unwrap().since(again) > again.since(now));
        owner_ids.settled(&asked);
        assert_eq!(*owner_ids.owner(), asked.split().0);
        assert_eq!(owner_ids.due(), None);
    }

    #[test]
    fn owner_ids_do_not_accumulate_while_counts_are_refused() {
        let (mut owner_ids, _) = owner_ids();
        owner_ids.begin();
        owner_ids.end(Written::Unknown);
        let now = Moment::now();
        for _ in 0..1000 {
            owner_ids.begin();
            owner_ids.end(Written::No);
            owner_ids.settle(now);
        }
        let names = owner_ids.owner().as_str().split(' ').count();
        assert!(names <= 4, "{names}");
    }

    #[test]
    fn the_count_of_the_thread_wins_over_that_of_the_watchdog() {
        let (mut owner_ids, _) = owner_ids();
        owner_ids.begin();
        owner_ids.end(Written::Unknown);
        let watchdogs = owner_ids.settle(Moment::now()).unwrap();
        let threads = owner_ids.begin();
        assert!(threads.covers(&watchdogs));
        owner_ids.settled(&watchdogs);
        assert_eq!(*owner_ids.owner(), threads);
    }
}
