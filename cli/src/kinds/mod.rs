//! What a key is, as far as its bytes show it.
//!
//! | kind | bytes |
//! |---|---|
//! | reentrant | a hash of one owner and its hold count |
//! | fenced | the same, and the key of the last token exists |
//! | fair | the same, with clients in the queue; without them it is like a reentrant lock |
//! | read, write | a hash with the field `mode`, the readers, and the writer |
//! | permits | a number, and a sorted set of leased permits; without these it is a number |
//! | number | a semaphore, a latch, or a number of another program |

mod decode;
mod names;

pub(super) use decode::{is_permit, number};
pub(super) use names::{LEASES, is_beside_a_lock, semaphores_of};

/// The fencing tokens of a lock. The last token stays when the lock is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fencing {
    Never,
    Last(u64),
    /// The user may not read it, or its slot moves to another server.
    Unknown,
}

/// An owner and its hold count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) owner: String,
    pub(super) count: u64,
}

/// What a key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lock {
        hold: Hold,
        fencing: Fencing,
        /// The clients in the queue of a fair lock.
        waiting: u64,
    },
    ReadWrite {
        writer: Option<Hold>,
        /// Beside a writer, only its own read lock.
        readers: Vec<Hold>,
    },
    Permits {
        leased: u64,
        /// Permits whose leases have ended count as available.
        available: i64,
    },
    Number(i64),
}

impl Kind {
    /// The name of the kind; `None` if the user may not read what shows it.
    pub(super) fn name(&self) -> Option<&'static str> {
        Some(match self {
            Self::Lock { waiting: 1.., .. } => "fair",
            Self::Lock { fencing, .. } => match fencing {
                Fencing::Never => "reentrant",
                Fencing::Last(_) => "fenced",
                Fencing::Unknown => return None,
            },
            Self::ReadWrite { writer: None, .. } => "read",
            Self::ReadWrite { .. } => "write",
            Self::Permits { .. } => "permits",
            Self::Number(_) => "number",
        })
    }

    /// The only owner of a lock. A writer that also reads is the only owner.
    pub(super) fn hold(&self) -> Option<&Hold> {
        match self {
            Self::Lock { hold, .. } => Some(hold),
            Self::ReadWrite {
                writer: Some(writer),
                ..
            } => Some(writer),
            Self::ReadWrite { readers, .. } => match &readers[..] {
                [reader] => Some(reader),
                _ => None,
            },
            Self::Permits { .. } | Self::Number(_) => None,
        }
    }

    /// The hold count: of several readers, the sum; of a semaphore, the leased permits.
    pub(super) fn count(&self) -> Option<u64> {
        match self {
            Self::Permits { leased, .. } => Some(*leased),
            Self::Number(_) => None,
            Self::ReadWrite {
                writer: None,
                readers,
            } => Some(readers.iter().map(|reader| reader.count).sum()),
            Self::Lock { .. } | Self::ReadWrite { .. } => self.hold().map(|hold| hold.count),
        }
    }

    /// True if all owners are `<client uuid>:<number>`, as this crate and Redisson write them. Any
    /// other hash may be data of another program.
    pub(super) fn is_certain(&self) -> bool {
        match self {
            Self::Lock { hold, .. } => decode::is_usual_owner(&hold.owner),
            Self::ReadWrite { writer, readers } => writer
                .iter()
                .chain(readers)
                .all(|hold| decode::is_usual_owner(&hold.owner)),
            Self::Permits { .. } | Self::Number(_) => true,
        }
    }
}
