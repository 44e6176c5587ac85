//! What is checked: the library's protocol, a part of it left out on purpose, or another one, and
//! how much goes wrong around it.

/// A protocol and its surroundings.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// A rule that is broken, to see that a promise hangs on it.
    pub planted: Option<Planted>,
    pub rename: Rename,
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

/// What a hold does about copies of its own commands that may still be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rename {
    /// Nothing but to send what sets them right behind them.
    Never,
    /// It moves to a fresh name with its next change of the count.
    AtNextChange,
    /// At once: the same call goes on with the move.
    AtOnce,
    /// With the next change of the count or the next renewal, whichever comes first.
    AtNextRenewal,
    /// No copy of a command repeats the name of an earlier one; what was given up is as above.
    EachRetry,
    /// The same, but all retries of one change of the count share a name.
    OncePerCall,
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
}

impl Protocol {
    /// The library's, with so many commands that get no answer, and with renewals.
    pub fn library(unanswered: u8) -> Self {
        Self {
            planted: None,
            rename: Rename::Never,
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

    pub fn renames(&self) -> bool {
        self.rename != Rename::Never
    }

    pub fn renames_each_retry(&self) -> bool {
        matches!(self.rename, Rename::EachRetry | Rename::OncePerCall)
    }

    pub fn renames_at_renewal(&self) -> bool {
        matches!(
            self.rename,
            Rename::AtNextRenewal | Rename::EachRetry | Rename::OncePerCall
        )
    }

    /// Whether a hold is stained by a copy without an answer, although another copy got one.
    pub fn stains(&self) -> bool {
        self.renames() && !self.renames_each_retry()
    }
}
