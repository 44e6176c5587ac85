//! What is checked: the library's protocol, or a rule of it broken on purpose, and how much goes wrong
//! around it.

/// The library's protocol and its surroundings.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// A rule that is broken, to see that a promise hangs on it.
    pub planted: Option<Planted>,
    /// Commands whose reply does not arrive in time: lost, executed without a word, or late.
    pub unanswered: u8,
    /// Whether what got no answer may be executed later. Otherwise it is executed at once or never.
    pub delays: bool,
    /// Times that somebody deletes the key behind the holder's back.
    pub deletions: u8,
    /// Crashes of a client, which is replaced by a fresh one.
    pub crashes: u8,
    /// Whether the watchdogs renew.
    pub renewals: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A name is used again although a command under it may be under way.
    NoFreshOwner,
    /// A release deletes the key, whoever holds it.
    ReleaseUnchecked,
    /// Counts go up and down by one instead of being written.
    RelativeCounts,
    /// A lease counts from the reply.
    LeaseFromReply,
    /// A nested acquire takes the lock if its field is gone.
    NestedTakesAnew,
    /// The watchdog goes on renewing what was released.
    RenewedAfterRelease,
    /// "Not yours" is believed of a hold that may have moved to another name since it was asked.
    OldNameBelieved,
    /// A hold learns of its fresh name only from the answer to what gives it.
    NameToldByAnswer,
    /// A retry carries the name of the first copy, and what was given up leaves no other.
    RetriesRepeatName,
    /// All retries of an acquire carry one fresh name.
    RetriesShareName,
    /// A change of the count that follows one that was given up is no move.
    NoMoveAfterGiveUp,
    /// A move that finds its new name there writes the count nevertheless.
    CountWrittenAgain,
}

impl Protocol {
    /// The library's, with so many commands that get no answer, and with renewals.
    pub fn library(unanswered: u8) -> Self {
        Self {
            planted: None,
            unanswered,
            delays: true,
            deletions: 0,
            crashes: 0,
            renewals: true,
        }
    }

    pub fn with(self, planted: Planted) -> Self {
        Self {
            planted: Some(planted),
            ..self
        }
    }

    pub fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }
}
