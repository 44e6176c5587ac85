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
}

/// How long the place of a dead client lasts in the queue of a fair lock, as documented.
const PLACE: Duration = Duration::from_secs(6);

impl Kind {
    /// The kind of lock number `lock` if no kind is selected: the first has no tokens, so the number
    /// of hand-overs is not limited by them.
    pub fn by_default(lock: u32) -> Self {
        match lock {
            0 => Self::Reentrant,
            _ => Self::Fenced,
        }
    }

    /// The scripts whose calls can be the only ones that meet faults.
    pub fn scripts(self) -> &'static [&'static str] {
        match self {
            Self::Reentrant | Self::Fenced => &["acquire", "release", "renew"],
            Self::Fair => &["fair_acquire", "fair_release", "fair_leave", "renew"],
        }
    }

    /// For how long a dead client that waits can keep a free lock from the others.
    pub fn place(self) -> Duration {
        match self {
            Self::Fair => PLACE,
            _ => Duration::ZERO,
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
        match text {
            "reentrant" => Ok(Self::Reentrant),
            "fenced" => Ok(Self::Fenced),
            "fair" => Ok(Self::Fair),
            _ => Err("expected reentrant, fenced, or fair"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reentrant => "reentrant",
            Self::Fenced => "fenced",
            Self::Fair => "fair",
        })
    }
}
