//! What is checked: the library's protocol or a broken variant, and how many failures occur.

/// The protocol and its environment.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// The rule that is broken, if any.
    pub planted: Option<Planted>,
    /// The number of commands whose reply does not arrive in time. They are lost, executed, or
    /// late.
    pub unanswered: u8,
    /// Whether unanswered commands may be executed later. If not: at once or never.
    pub delays: bool,
    /// How often another program deletes the key.
    pub deletions: u8,
    /// How often a client crashes. A new client replaces it.
    pub crashes: u8,
    /// Whether the watchdogs renew.
    pub renewals: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// An owner id is reused while a command that carries it may still be under way.
    NoFreshOwner,
    /// A release deletes the key without checking the owner.
    ReleaseUnchecked,
    /// Counts are incremented and decremented instead of written.
    RelativeCounts,
    /// A lease is measured from the reply.
    LeaseFromReply,
    /// A nested acquire creates the key if it is gone.
    NestedAcquiresAgain,
    /// The watchdog still renews after the release.
    RenewedAfterRelease,
    /// A "not held" reply is trusted although the hold may have moved to another owner id since.
    OldIdTrusted,
    /// A hold learns its fresh owner id only from the reply to the command that assigns it.
    IdKnownFromReply,
    /// A retry carries the owner id of the first copy, and an abandoned call assigns no other id.
    RetriesRepeatId,
    /// All retries of an acquire carry one fresh owner id.
    RetriesShareId,
    /// A recount after an abandoned one does not move to a fresh owner id.
    NoMoveAfterGiveUp,
    /// A move writes the count even if the key already has its new owner id.
    CountWrittenAgain,
}

impl Protocol {
    /// The library's protocol with renewals and with this many commands without a reply.
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
