//! What is checked: the library's protocol or a broken variant, and how many failures occur.

pub const CLIENTS: usize = 2;

/// The protocol and its environment.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// The rule that is broken, if any.
    pub planted: Option<Planted>,
    /// The number of commands whose reply does not arrive in time. They are lost, executed, or
    /// late.
    pub unanswered: u8,
    /// How often a connection breaks that carried an unanswered copy of an acquire. The copy may
    /// still be executed, but nothing can be sent behind it.
    pub breaks: u8,
    /// How often another program deletes the key.
    pub deletions: u8,
    /// How often a client crashes. A new client replaces it.
    pub crashes: u8,
    /// The number of permits of a semaphore. `None`: a lock.
    pub permits: Option<u8>,
    /// Whether an unused grant stays until its linger deadline.
    pub lingers: bool,
    /// Whether holds have tokens.
    pub fenced: bool,
    /// The number of threads of each client.
    pub threads: [usize; CLIENTS],
    /// How often a thread can lock without an unlock.
    pub levels: u8,
    /// In ticks. At least 2, the smallest lease for which renewals make a difference.
    pub lease: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// All grants of a client have one owner id.
    OwnerIdReused,
    /// All copies of an acquire have one owner id.
    CopiesShareId,
    /// A copy of an acquire does not look for the permit of an older copy.
    CopyTakesAnother,
    /// Copies of an acquire that got no reply are not followed by a release.
    NotTakenBack,
    /// The release behind an older copy also names the owner id of the copy that was granted.
    GrantTakenBack,
    /// A release deletes the key without checking the owner.
    ReleaseUnchecked,
    /// A release adds a permit without looking whether it is leased.
    ReleaseUncounted,
    /// A renewal extends the lease of any owner.
    RenewUnchecked,
    /// A renewal leases a permit that is not leased.
    RenewalLeases,
    /// A renewal extends a permit whose lease has ended.
    ExpiredRenewed,
    /// Expired permits become available, and stay leased.
    ExpiredTwice,
    /// An acquire reads a clock that is one tick ahead. Two machines can have such clocks.
    OtherClock,
    /// Each unlock decrements the count in Redis, and deletes the key when it is zero.
    CountBelieved,
    /// A lease is measured from the reply.
    LeaseFromReply,
    /// The watchdog renews until the release is answered.
    RenewedAfterRelease,
    /// The reply to a renewal of an older grant is taken for one about the present grant.
    StaleReplyBelieved,
    /// A grant that Redis reported as lost is handed over.
    LostHandedOver,
    /// A loss is reported to the thread that had the hold when the renewal was sent.
    LossToFormerHolder,
    /// The unlock of an inner level hands the grant over, or lets it linger.
    PassedOnWhileHeld,
    /// A grant is handed over at any age.
    HandedOverPastSlice,
    /// A grant stays with a thread that gave up waiting when the grant was handed to it.
    HandedToLeaver,
    /// The unlock of a thread without a valid hold releases the grant that its client has.
    UnlockUnchecked,
    /// An idle grant is not released at its deadline.
    IdleKept,
    /// An idle grant that Redis reported as lost can be taken.
    LostIdleTaken,
    /// A hold after a hand-over has the token of the hold before it.
    TokenTwice,
    /// A grant is handed over when its block of tokens is used up; the token is the next number.
    BlockExceeded,
}

impl Protocol {
    /// The library's protocol for a lock, with every feature, one level, and this many commands
    /// without a reply.
    pub fn library(unanswered: u8) -> Self {
        Self {
            planted: None,
            unanswered,
            breaks: 0,
            deletions: 0,
            crashes: 0,
            permits: None,
            lingers: true,
            fenced: true,
            threads: [2, 1],
            levels: 1,
            lease: 2,
        }
    }

    /// Two clients that share this number of permits.
    pub fn semaphore(permits: u8, unanswered: u8) -> Self {
        Self {
            permits: Some(permits),
            lingers: false,
            fenced: false,
            threads: [1, 1],
            ..Self::library(unanswered)
        }
    }

    /// The number of holds that may be valid at once.
    pub fn capacity(&self) -> u8 {
        self.permits.unwrap_or(1)
    }

    /// True if a client has several threads.
    pub fn has_crowd(&self) -> bool {
        self.threads[0] > 1
    }

    /// The ticks after its grant during which a client hands it over.
    pub fn slice(&self) -> u8 {
        self.lease - 1
    }

    /// The ticks after which an idle grant is released.
    pub fn linger(&self) -> u8 {
        self.lease - 1
    }

    pub fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }
}
