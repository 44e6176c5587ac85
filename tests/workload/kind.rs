//! The kind of the locks under test.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What `--kind` selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Reentrant,
    Fenced,
    Fair,
    ReadWrite,
    /// A semaphore with this number of leased permits.
    Permits(u32),
    /// A semaphore with this number of permits, of which a call acquires several.
    Semaphore(u32),
}

/// Which of the two locks of a read-write lock, or how many permits of a semaphore. The other kinds
/// have only the exclusive lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Exclusive,
    Shared,
    Several(u32),
}

/// How long the place of a dead client lasts in the queue of a fair lock, as documented.
const PLACE: Duration = Duration::from_secs(6);

/// How long a free lock stays reserved for a writer whose process has died, as documented.
const TURN: Duration = Duration::from_millis(100);

/// How long a client that needs more permits than are free keeps those behind it waiting, as
/// documented.
const KEEPS_OUT: Duration = Duration::from_secs(2);

/// The longest time in which threads of a process hand a grant over, and in which readers share it.
const SLICE: Duration = Duration::from_millis(10);
const READ_SLICE: Duration = Duration::from_millis(50);

impl Access {
    /// How many permits it takes.
    pub fn permits(self) -> u32 {
        match self {
            Self::Several(permits) => permits,
            Self::Exclusive | Self::Shared => 1,
        }
    }
}

impl Kind {
    /// The kind of lock number `lock` if no kind is selected: the first has no tokens, so the
    /// number of hand-overs is not limited by them.
    pub fn by_default(lock: u32) -> Self {
        match lock {
            0 => Self::Reentrant,
            _ => Self::Fenced,
        }
    }

    /// The number of permits of a semaphore; `None` for a lock.
    pub fn permits(self) -> Option<u32> {
        match self {
            Self::Permits(permits) | Self::Semaphore(permits) => Some(permits),
            _ => None,
        }
    }

    /// For how long a dead client that waits can keep a free lock from the others.
    pub fn place(self) -> Duration {
        match self {
            Self::Fair => PLACE,
            Self::ReadWrite => TURN,
            _ => Duration::ZERO,
        }
    }

    /// False if a hold lasts until its release: what a dead holder has is lost.
    pub fn has_lease(self) -> bool {
        !matches!(self, Self::Semaphore(_))
    }

    /// For how long a living client can keep a lock from others that it cannot acquire itself.
    pub fn keeps_out(self) -> Duration {
        match self {
            Self::Semaphore(_) => KEEPS_OUT,
            _ => Duration::ZERO,
        }
    }

    /// For how long threads can begin holds on one grant.
    pub fn slice(self) -> Duration {
        match self {
            Self::ReadWrite => READ_SLICE,
            _ => SLICE,
        }
    }

    /// The longest time between two requests of a thread that waits, as documented.
    pub fn longest_poll(self) -> Duration {
        match self {
            Self::Fair => PLACE / 3,
            _ => Duration::from_secs(1),
        }
    }
}

impl FromStr for Kind {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let permits = |number: &str| number.parse().ok().filter(|permits| *permits > 0);
        match text {
            "reentrant" => Ok(Self::Reentrant),
            "fenced" => Ok(Self::Fenced),
            "fair" => Ok(Self::Fair),
            "read-write" => Ok(Self::ReadWrite),
            _ => match text.split_once('=') {
                Some(("permits", number)) => permits(number).map(Self::Permits),
                Some(("semaphore", number)) => permits(number).map(Self::Semaphore),
                _ => None,
            }
            .ok_or("expected reentrant, fenced, fair, read-write, permits=K or semaphore=K"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reentrant => f.write_str("reentrant"),
            Self::Fenced => f.write_str("fenced"),
            Self::Fair => f.write_str("fair"),
            Self::ReadWrite => f.write_str("read-write"),
            Self::Permits(permits) => write!(f, "permits={permits}"),
            Self::Semaphore(permits) => write!(f, "semaphore={permits}"),
        }
    }
}
