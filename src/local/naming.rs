//! Under which name a hold stands in Redis, and whether that is known. Pure.
//!
//! Of two requests that write a count, nobody knows which comes last. So while an earlier one has had no
//! answer, the next takes the hold to a name that the earlier does not know, and finds it under any of
//! the names that it may have.

use crate::owner::Owner;

#[derive(Debug)]
pub(super) struct Naming {
    owner: Owner,
    /// The thread of the hold is writing a count.
    counting: bool,
}

/// What became of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    No,
    /// One copy at least had no answer.
    Unknown,
}

impl Naming {
    pub(super) fn new(owner: Owner) -> Self {
        Self {
            owner,
            counting: false,
        }
    }

    pub(super) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The owner under which the thread is to write a count.
    pub(super) fn begin(&mut self) -> Owner {
        self.counting = true;
        if self.owner.is_uncertain() {
            self.owner = self.owner.with_fresh_name();
        }
        self.owner.clone()
    }

    /// The same for another copy of the request that was begun as `begun`, after one that had no answer.
    /// All of them go to one name: whichever comes first writes, the others find it written.
    pub(super) fn again(&mut self, begun: &Owner) -> Owner {
        if !begun.is_uncertain() && self.owner == *begun {
            self.owner = self.owner.with_fresh_name();
        }
        self.owner.clone()
    }

    pub(super) fn end(&mut self, written: Written) {
        self.counting = false;
        match written {
            Written::Yes => self.owner = self.owner.split().0,
            Written::Unknown if !self.owner.is_uncertain() => {
                self.owner = self.owner.with_fresh_name();
            }
            Written::Unknown | Written::No => {}
        }
    }

    /// Somebody has to write the count, because nobody knows what Redis has, and the thread does not.
    pub(super) fn is_unsettled(&self) -> bool {
        self.owner.is_uncertain() && !self.counting
    }

    /// The owner under which the watchdog is to write it.
    pub(super) fn settle(&mut self) -> Option<Owner> {
        if !self.is_unsettled() {
            return None;
        }
        self.owner = self.owner.with_fresh_name();
        Some(self.owner.clone())
    }

    /// It did. If the thread has begun another count meanwhile, that one settles it.
    pub(super) fn settled(&mut self, owner: &Owner) {
        if self.owner == *owner {
            self.owner = self.owner.split().0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn naming() -> (Naming, Owner) {
        let owner = Owner::current(&Uuid::new_v4());
        (Naming::new(owner.clone()), owner)
    }

    #[test]
    fn a_count_that_is_answered_at_once_keeps_the_name() {
        let (mut naming, owner) = naming();
        assert_eq!(naming.begin(), owner);
        naming.end(Written::Yes);
        assert_eq!(*naming.owner(), owner);
        assert!(!naming.is_unsettled());
    }

    #[test]
    fn all_further_copies_of_a_count_go_to_one_new_name() {
        let (mut naming, owner) = naming();
        let begun = naming.begin();
        let second = naming.again(&begun);
        assert_ne!(second.split().0, owner);
        assert!(second.covers(&owner), "it may be there still");
        assert_eq!(naming.again(&begun), second);
        // A renewal meanwhile asks for both names, and writes no count.
        assert_eq!(*naming.owner(), second);
        assert_eq!(naming.settle(), None);
        naming.end(Written::Yes);
        assert_eq!(*naming.owner(), second.split().0);
    }

    #[test]
    fn after_a_count_without_an_answer_the_next_takes_the_hold_elsewhere() {
        let (mut naming, owner) = naming();
        naming.begin();
        naming.end(Written::Unknown);
        assert!(naming.is_unsettled());
        let next = naming.begin();
        assert!(next.covers(&owner) && next.split().0 != owner);
        assert_eq!(naming.again(&next), next, "it goes there already");
        naming.end(Written::No);
        assert!(naming.is_unsettled(), "still");
    }

    #[test]
    fn the_watchdog_settles_what_the_thread_has_left() {
        let (mut naming, owner) = naming();
        naming.begin();
        naming.end(Written::Unknown);
        let unanswered = naming.settle().unwrap();
        let answered = naming.settle().unwrap();
        assert!(answered.covers(&unanswered) && answered.covers(&owner));
        naming.settled(&unanswered);
        assert!(naming.is_unsettled(), "it may have moved on since");
        naming.settled(&answered);
        assert_eq!(*naming.owner(), answered.split().0);
    }

    #[test]
    fn the_thread_settles_what_it_counts_while_the_watchdog_does() {
        let (mut naming, _) = naming();
        naming.begin();
        naming.end(Written::Unknown);
        let watchdogs = naming.settle().unwrap();
        let threads = naming.begin();
        assert!(threads.covers(&watchdogs));
        naming.settled(&watchdogs);
        assert_eq!(*naming.owner(), threads);
    }
}
