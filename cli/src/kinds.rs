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

use std::str::FromStr;

use redis::{FromRedisValue, Value};
use uuid::Uuid;

/// The end of the key of leased permits: Redisson derives it from the name of the semaphore.
pub(super) const LEASES: &str = ":timeout";

/// The largest number of readers, places or permits of one name that is shown: as many as a script
/// looks at.
pub(super) const MOST: u64 = 1_000;

/// The length of a UUID with its dashes.
const UUID: usize = 36;

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
    /// From the fields of a hash, the last fencing token, and the length of the queue of a fair
    /// lock. `None` if it is neither a lock by the rule of `lua/shared/holder_of.lua`, nor a
    /// read-write lock.
    pub(super) fn of_hash(
        mut fields: Vec<(String, String)>,
        token: Option<Value>,
        waiting: Option<Value>,
    ) -> Option<Self> {
        if let [(owner, count)] = &fields[..] {
            return Some(Self::Lock {
                hold: Hold::of(owner, count)?,
                fencing: match token {
                    Some(Value::Nil) => Fencing::Never,
                    token => token
                        .and_then(decoded)
                        .map_or(Fencing::Unknown, Fencing::Last),
                },
                waiting: waiting.and_then(decoded).unwrap_or(0),
            });
        }
        let mode = fields.iter().position(|(field, _)| field == "mode")?;
        let (_, mode) = fields.swap_remove(mode);
        let (mut writers, mut readers) = (Vec::new(), Vec::new());
        for (field, count) in &fields {
            match field.strip_suffix(":write") {
                Some(owner) => writers.push(Hold::of(owner, count)?),
                None => readers.push(Hold::of(field, count)?),
            }
        }
        readers.sort_by(|a, b| a.owner.cmp(&b.owner));
        let is_valid = match writers.len() {
            0 => mode == "read" && !readers.is_empty(),
            count => mode == "write" && count == 1,
        };
        let writer = writers.pop();
        is_valid.then_some(Self::ReadWrite { writer, readers })
    }

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

    /// True for a lock, and false for a semaphore and any other number.
    pub(super) fn is_lock(&self) -> bool {
        matches!(self, Self::Lock { .. } | Self::ReadWrite { .. })
    }

    /// The number of all readers, places or permits.
    pub(super) fn shares(&self) -> u64 {
        match self {
            Self::Lock { waiting, .. } => *waiting,
            Self::ReadWrite { readers, .. } => readers.len() as u64,
            Self::Permits { leased, .. } => *leased,
            Self::Number(_) => 0,
        }
    }

    /// The holds of a lock, that of a writer first.
    pub(super) fn holds(&self) -> impl Iterator<Item = &Hold> {
        let (first, readers) = match self {
            Self::Lock { hold, .. } => (Some(hold), &[][..]),
            Self::ReadWrite { writer, readers } => (writer.as_ref(), &readers[..]),
            Self::Permits { .. } | Self::Number(_) => (None, &[][..]),
        };
        first.into_iter().chain(readers)
    }

    /// The only owner of a lock. A writer that also reads is the only owner.
    pub(super) fn hold(&self) -> Option<&Hold> {
        let mut holds = self.holds();
        let first = holds.next();
        let is_read = self.name() == Some("read");
        first.filter(|_| !is_read || holds.next().is_none())
    }

    /// The hold count: of several readers, the sum; of a semaphore, the leased permits. `None`
    /// for a number.
    pub(super) fn count(&self) -> Option<u64> {
        match self {
            Self::Permits { leased, .. } => Some(*leased),
            Self::Number(_) => None,
            Self::Lock { .. } | Self::ReadWrite { .. } => {
                let sum = || self.holds().map(|hold| hold.count).sum();
                Some(self.hold().map_or_else(sum, |hold| hold.count))
            }
        }
    }
}

impl Hold {
    /// From a field and its value.
    fn of(owner: &str, count: &str) -> Option<Self> {
        let count = canonical::<u32>(count).filter(|count| is_owner(owner) && *count > 0)?;
        Some(Self {
            owner: owner.into(),
            count: count.into(),
        })
    }
}

pub(super) fn decoded<T: FromRedisValue>(value: Value) -> Option<T> {
    redis::from_redis_value(value).ok()
}

/// The number in a string, as Redis writes numbers.
pub(super) fn number(value: Value) -> Option<i64> {
    canonical(&decoded::<String>(value)?)
}

/// A number that is written without a plus and without leading zeros.
fn canonical<T: FromStr + ToString>(text: &str) -> Option<T> {
    let number: T = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// True if a member of a sorted set can be the id of a permit.
pub(super) fn is_permit(member: &[u8]) -> bool {
    member.len() == 16
}

/// True for `<client uuid>:<number>`, as this crate and Redisson write it, by the rule of
/// `lua/shared/kinds.lua`. Any other hash is data of another program.
fn is_owner(owner: &str) -> bool {
    owner.split_once(':').is_some_and(|(client, thread)| {
        let thread = thread.strip_prefix('-').unwrap_or(thread);
        let is_part = |byte: u8| byte == b':' || byte.is_ascii_alphanumeric();
        client.len() == UUID
            && Uuid::try_parse(client).is_ok()
            && thread.starts_with(|first: char| first.is_ascii_digit())
            && thread.bytes().all(is_part)
    })
}

/// True for a string that belongs to a lock: its last token, the lease of a reader, or Redisson's
/// reply to a release.
pub(super) fn is_beside_a_lock(key: &str) -> bool {
    key.starts_with("redisson_lock_token:")
        || key.starts_with("redisson_unlock_latch:")
        || key.contains(":rwlock_timeout:")
}

/// The semaphores that have their leased permits in this key: `a` and `{a}` share one.
pub(super) fn semaphores_of(leases: &str) -> [Option<&str>; 2] {
    let tagged = leases.strip_suffix(LEASES).unwrap_or_default();
    let inner = tagged
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .filter(|name| !name.is_empty() && !name.contains('{'));
    [inner, tagged.contains('{').then_some(tagged)]
}

#[cfg(test)]
mod tests;
