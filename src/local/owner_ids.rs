//! Under which name a hold stands in Redis, and whether that is known. Pure.
//!
//! Of two requests that write a count, nobody knows which comes last. So while an earlier one has had no
//! answer, the next takes the hold to a name that the earlier does not know, and finds it under any of
//! the names that it may have.

use std::time::Duration;

use crate::base::backoff::Backoff;
use crate::base::clock::Moment;
use crate::base::owner::OwnerId;

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct OwnerIds {
    owner: OwnerId,
    /// No request under the newest name may be under way.
    is_newest_free: bool,
    /// The thread of the hold is writing a count.
    counting: bool,
    /// When the watchdog is to write it, if the thread does not, and the pauses between its attempts.
    settle_at: Moment,
    pauses: Backoff,
    /// The newest name is that of the watchdog's attempts.
    settling: bool,
}

/// What became of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    No,
    /// One copy at least had no answer.
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

    /// The owner under which the thread is to write a count.
    pub(super) fn begin(&mut self) -> OwnerId {
        self.counting = true;
        self.settling = false;
        if self.owner.is_uncertain() {
            self.take_free_name();
        }
        self.owner.clone()
    }

    /// Makes sure that a request may go under the newest name, and that it does.
    fn take_free_name(&mut self) {
        if !std::mem::take(&mut self.is_newest_free) {
            self.owner = self.owner.with_fresh_name();
        }
    }

    /// The same for another copy of the request that was begun as `begun`, after one that had no answer.
    /// All of them go to one name: whichever comes first writes, the others find it written.
    pub(super) fn again(&mut self, begun: &OwnerId) -> OwnerId {
        if !begun.is_uncertain() && self.owner == *begun {
            self.owner = self.owner.with_fresh_name();
        }
        self.owner.clone()
    }

    pub(super) fn end(&mut self, written: Written) {
        self.counting = false;
        match written {
            Written::Yes => self.found(),
            Written::Unknown if !self.owner.is_uncertain() => {
                self.owner = self.owner.with_fresh_name();
                self.is_newest_free = true;
            }
            Written::Unknown => {}
            Written::No => self.is_newest_free = self.owner.is_uncertain(),
        }
    }

    /// It stands under the newest name.
    fn found(&mut self) {
        *self = Self::new(self.owner.split().0);
    }

    /// When the watchdog is to write the count, because nobody knows what Redis has, and the thread
    /// does not write it.
    pub(super) fn due(&self) -> Option<Moment> {
        let is_unsettled = self.owner.is_uncertain() && !self.counting;
        is_unsettled.then_some(self.settle_at)
    }

    /// The owner under which it is to write it now. All its attempts go to one name, as the copies of
    /// the thread's request do.
    pub(super) fn settle(&mut self, now: Moment) -> Option<OwnerId> {
        self.due().filter(|&due| due <= now)?;
        if !self.settling {
            self.settling = true;
            self.take_free_name();
        }
        self.settle_at = now.after(self.pauses.next());
        Some(self.owner.clone())
    }

    /// It did. If the thread has begun another count meanwhile, that one settles it.
    pub(super) fn settled(&mut self, owner: &OwnerId) {
        if self.owner == *owner {
            self.found();
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
    fn a_count_that_is_answered_at_once_keeps_the_name() {
        let (mut owner_ids, owner) = owner_ids();
        assert_eq!(owner_ids.begin(), owner);
        owner_ids.end(Written::Yes);
        assert_eq!(*owner_ids.owner(), owner);
        assert_eq!(owner_ids.due(), None);
    }

    #[test]
    fn all_further_copies_of_a_count_go_to_one_new_name() {
        let (mut owner_ids, owner) = owner_ids();
        let begun = owner_ids.begin();
        let second = owner_ids.again(&begun);
        assert_ne!(second.split().0, owner);
        assert!(second.covers(&owner), "it may be there still");
        assert_eq!(owner_ids.again(&begun), second);
        // A renewal meanwhile asks for both names, and writes no count.
        assert_eq!(*owner_ids.owner(), second);
        assert_eq!(owner_ids.settle(Moment::now()), None);
        owner_ids.end(Written::Yes);
        assert_eq!(*owner_ids.owner(), second.split().0);
    }

    #[test]
    fn after_a_count_without_an_answer_the_next_takes_the_hold_elsewhere() {
        let (mut owner_ids, owner) = owner_ids();
        owner_ids.begin();
        owner_ids.end(Written::Unknown);
        assert_eq!(owner_ids.due(), Some(Moment::ZERO));
        let next = owner_ids.begin();
        assert!(next.covers(&owner) && next.split().0 != owner);
        assert_eq!(owner_ids.again(&next), next, "it goes there already");
        owner_ids.end(Written::No);
        assert!(owner_ids.due().is_some(), "still");
    }

    #[test]
    fn the_watchdog_settles_what_the_thread_has_left() {
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
            "names do not pile up"
        );
        assert!(owner_ids.due().unwrap().since(again) > again.since(now));
        owner_ids.settled(&asked);
        assert_eq!(*owner_ids.owner(), asked.split().0);
        assert_eq!(owner_ids.due(), None);
    }

    #[test]
    fn names_do_not_pile_up_while_counts_are_refused() {
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
    fn the_thread_settles_what_it_counts_while_the_watchdog_does() {
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
