//! How this client shares a lock with clients of Redisson. No I/O and no clock.
//!
//! A client that releases a lock and requests it again at once nearly always gets it before a
//! client that has to hear of the release first. Clients of this library stand in a line, and the
//! lock is reserved for the one that is called. Clients of Redisson only listen, and their threads
//! compete. So if others listen, this client pauses before its next request: it lets some holds of
//! others pass. A listener need not want the lock, so pauses that no other client uses become rare.
//!
//! Each thread gets about the same share, whichever library it uses. If N threads of this client
//! want the lock, and M threads of Redisson were named by refusals lately, then M holds of others
//! pass for N holds of this client. A turn can end early, because the next thread wants the other
//! lock of a read-write lock, and others can get the lock without a pause. So both are counted.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::base::Moment;

/// A grant may be handed over for this long.
pub(super) const SLICE: Duration = Duration::from_millis(10);

/// The slice while other clients wait, once this client has had its share.
const SHORT_SLICE: Duration = Duration::from_millis(2);

/// After `n` pauses in a row that no other client used, there is none for `EACH << n`, at most for
/// `EACH << RAREST`. So pauses for a client that only listens take 3 % of the time.
const RAREST: u32 = 5;

/// The owners that refusals named last: this many of them are known.
const KNOWN: usize = 16;

/// What this client knows of the others that want one lock.
#[derive(Debug, Default)]
pub(super) struct Yields {
    /// Other clients waited at the last release.
    pub(super) is_contended: bool,
    /// The number of clients that listened to the last release that was published.
    listeners: u32,
    /// The owners of other libraries that refusals named last.
    owners: VecDeque<String>,
    /// The threads of this client that wanted the lock when it was granted last.
    threads: i64,
    /// `threads` for each hold of others that has to pass. Negative if more have passed.
    owed: i64,
    /// How the next request waits.
    pub(super) pause: Option<Pause>,
    /// The pauses in a row that no other client used.
    unused: u32,
    /// There is no pause before this moment.
    next: Option<Moment>,
}

/// How a thread leaves the lock to other clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    /// The thread enters the line first, and the pause begins when it is called.
    pub(crate) is_in_line: bool,
    /// The number of holds of others that it lets pass.
    pub(crate) holds: u32,
}

impl Pause {
    /// The time for each hold. A thread of Redisson requests the lock 1.6 ms after a release
    /// (median, on two cores). If it holds the lock for longer, the next request is refused.
    pub(crate) const EACH: Duration = Duration::from_millis(4);
}

impl Yields {
    /// Records that Redis granted the lock when this many threads wanted it.
    pub(super) fn granted(&mut self, threads: usize) {
        self.threads = threads as i64;
    }

    /// For how long a grant may be handed over that had this many `holds`.
    pub(super) fn slice(&self, holds: u64) -> Duration {
        match self.is_contended && self.due(self.owed_after(holds)).is_some() {
            true => SHORT_SLICE,
            false => SLICE,
        }
    }

    /// Records a hold of another client, and its owner, if a refusal named it. A thread that writes
    /// is no other owner than the same thread when it reads.
    pub(super) fn passed(&mut self, owner: Option<&str>) {
        (self.unused, self.next) = (0, None);
        self.owed = (self.owed - self.threads).max(-self.threads);
        if let Some(owner) = owner {
            let owner = owner.strip_suffix(":write").unwrap_or(owner);
            self.owners.truncate(KNOWN - 1);
            self.owners.push_front(owner.into());
        }
    }

    /// Records a release at `now` of a grant that had this many `holds`, how many other clients
    /// listened, and whether one in the line was called. The lock is reserved for that one, so the
    /// next request enters the line behind it. Without `listeners`, the release was not published,
    /// because other readers are left.
    pub(super) fn released(
        &mut self,
        now: Moment,
        listeners: Option<u32>,
        is_called: bool,
        holds: u64,
    ) {
        self.listeners = listeners.unwrap_or(self.listeners);
        self.is_contended = is_called || self.listeners > 0 && self.unused == 0;
        // Clients of this library, which do not listen, have their turns in the line.
        self.owed = match self.listeners {
            0 => 0,
            _ => self.owed_after(holds),
        };
        let holds = self.due(self.owed);
        let is_due = self.listeners > 0 && self.next.is_none_or(|next| next <= now);
        let pause = holds.map(|holds| Pause {
            is_in_line: is_called,
            holds,
        });
        self.pause = pause.filter(|_| is_due);
    }

    /// How the next request waits; `None` if it is made at once. The pause counts as unused until
    /// another client has had the lock.
    pub(super) fn take_pause(&mut self, now: Moment) -> Option<Pause> {
        let pause = self.pause.take()?;
        self.unused = (self.unused + 1).min(RAREST);
        self.next = Some(now.after(Pause::EACH * (1 << self.unused)));
        Some(pause)
    }

    /// True if it knows nothing that a new one would not know.
    pub(super) fn is_fresh(&self) -> bool {
        !self.is_contended && self.unused == 0
    }

    /// What is owed after this many holds of this client. All holds of a turn cost at most one of
    /// each other thread.
    fn owed_after(&self, holds: u64) -> i64 {
        let known: BTreeSet<&String> = self.owners.iter().collect();
        let others = known.len().max(self.listeners as usize).max(1) as i64;
        (self.owed + holds as i64 * others).min(self.threads.max(1) * others)
    }

    /// How many holds of others follow: none, or at least one for each client that listens.
    fn due(&self, owed: i64) -> Option<u32> {
        let due = owed / self.threads.max(1);
        (due >= i64::from(self.listeners.max(1))).then_some(due as u32)
    }
}

#[cfg(test)]
mod tests;
