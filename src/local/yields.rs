//! How this client shares a lock with other clients. No I/O and no clock.
//!
//! A client that releases a lock and requests it again at once nearly always gets it before a
//! client that has to hear of the release first. Clients of this library stand in a line, and the
//! lock is reserved for the one that is called. Clients of Redisson only listen, and their threads
//! compete. So if others listen, this client lets some holds of others pass before its next
//! request, and waits for each of them as long as they were seen to need. A listener need not want
//! the lock, and its process may be stopped. So yields that no other client uses become longer, and
//! then rarer.
//!
//! Each thread gets the same share, whichever library it uses. If N threads of this client want the
//! lock, and M threads of Redisson were named by refusals lately, then M holds of others pass for
//! N holds of this client. Turns are as short as that allows, so that no thread waits for long. A
//! turn can also end earlier, because the next thread wants the other lock of a read-write lock.
//! Then the holds of several turns count together. Holds of others that pass without a pause count,
//! too, because others can be faster than the next thread of this client.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::base::clock::Moment;

/// A grant may be handed over for this long.
pub(super) const SLICE: Duration = Duration::from_millis(10);

/// The slice while other clients wait, once the turn has had as many holds as its share.
const SHORT_SLICE: Duration = Duration::from_millis(2);

/// Bounds of the pause before the next request, and the length of the first one. A thread of
/// Redisson requests the lock 1.6 ms after a release (median, on two cores).
const SHORTEST_PAUSE: Duration = Duration::from_micros(500);
const FIRST_PAUSE: Duration = Duration::from_micros(2500);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// A request of another client takes at least as long as this many round trips: the message, the
/// wake-up of its thread, the request.
const ROUND_TRIPS: u32 = 3;

/// After a pause that another client used, the next one is this part of it shorter.
const SHORTENED: u32 = 16;

/// The owners that refusals named last: this many of them are known.
const KNOWN: usize = 16;

/// After this many pauses, one more hold passes than owners are known. Otherwise the client to
/// which the server sends each message last might never get the lock, and never become known.
const ONE_MORE_AFTER: u32 = 8;

/// After `n` yields in a row that no client used, this client does not yield for `1 << n` pauses,
/// at most `1 << RAREST`. So yields to a client that only listens take 3 % of the time, and a
/// client that wants the lock is not kept from it for long.
const RAREST: u32 = 5;

/// The yields of this client for one lock.
#[derive(Debug, Default)]
pub(super) struct Yields {
    /// The yields in a row that no other client used.
    unused: u32,
    /// The length of the next pause; zero before the first one.
    length: Duration,
    /// There is no yield before this moment.
    next: Option<Moment>,
    /// Other clients waited at the last release.
    pub(super) is_contended: bool,
    /// The number of clients that listened to the last release that was published.
    listeners: u32,
    /// The holds of others that the next pause has to let pass. Less than one is left after it.
    /// Negative if others have had the lock without a pause.
    owed: f32,
    /// How the next request waits.
    pause: Option<Pause>,
    /// A thread has taken that pause.
    is_pausing: bool,
    /// The threads that wanted the lock when the last turn began.
    threads: u64,
    /// The holds after which that turn may end.
    turn: u64,
    /// The owners of other libraries that refusals named last.
    owners: VecDeque<String>,
    /// The pauses since one more hold passed.
    pauses: u32,
}

/// How a thread leaves the lock to other clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    /// The thread enters the line first, and the pause begins when it is called.
    pub(crate) is_in_line: bool,
    /// Until this moment it hears nothing: the message may be that of this client's own release.
    pub(crate) deaf_until: Moment,
    /// Then it waits for the next release until this moment.
    pub(crate) until: Moment,
    /// For how long it waits for each release after that.
    pub(crate) length: Duration,
    /// The number of holds of others that it lets pass.
    pub(crate) holds: u32,
    /// Another client has had the lock.
    is_used: bool,
}

impl Pause {
    /// Counts a hold of another client.
    pub(crate) fn pass(&mut self) {
        self.is_used = true;
        self.holds = self.holds.saturating_sub(1);
    }

    /// The thread has entered the line behind `rank` clients. Each of N clients keeps its pause in
    /// one of N turns, so that the others do not get more holds than beside one client. `random`
    /// is between 0 and 1.
    pub(crate) fn enter_line(self, rank: u32, random: f32) -> Option<Self> {
        let clients = rank.max(1).saturating_add(1);
        let is_kept = !self.is_in_line || random * (clients as f32) < 1.0;
        let is_in_line = false;
        is_kept.then_some(Self { is_in_line, ..self })
    }
}

impl Yields {
    /// Records that Redis granted the lock when this many threads wanted it.
    pub(super) fn granted(&mut self, threads: usize) {
        let others = self.others();
        // As many holds of others follow as clients listen, so that each of them can have one.
        let next = u64::from(self.listeners).clamp(1, others);
        let left = (next as f32 - self.owed).max(0.0);
        self.threads = threads as u64;
        self.turn = (left * threads as f32 / others as f32).ceil() as u64;
    }

    /// For how long a grant may be handed over that had this many `holds`.
    pub(super) fn slice(&self, holds: u64) -> Duration {
        match self.is_contended && holds >= self.turn {
            true => SHORT_SLICE,
            false => SLICE,
        }
    }

    /// Records a refusal by an owner of another library. A thread that writes is no other owner
    /// than the same thread when it reads.
    pub(super) fn refused_by(&mut self, mut owner: String) {
        if let Some(thread) = owner.strip_suffix(":write") {
            owner.truncate(thread.len());
        }
        self.owners.truncate(KNOWN - 1);
        self.owners.push_front(owner);
        if !self.is_pausing {
            // It has passed without a pause.
            self.owed = (self.owed - 1.0).max(-1.0);
        }
    }

    /// Records a release at `now`, which took `took`, how many other clients listened, and whether
    /// one in the line was called. The lock is reserved for that one, so the next request enters
    /// the line behind it; its pause begins when it is called. The grant had this many `holds`.
    /// Without `listeners`, the release was not published, because other readers are left.
    pub(super) fn released(
        &mut self,
        (now, took): (Moment, Duration),
        listeners: Option<u32>,
        is_called: bool,
        holds: u64,
    ) {
        let listeners = listeners.unwrap_or(self.listeners);
        self.listeners = listeners;
        self.is_contended = is_called || listeners > 0 && self.unused == 0;
        (self.pause, self.is_pausing) = (None, false);
        if listeners == 0 {
            return;
        }
        self.owe(holds);
        if self.owed < 1.0 || self.next.is_some_and(|next| now < next) {
            return;
        }
        if self.length.is_zero() {
            self.length = FIRST_PAUSE;
        }
        let pause = self.length.max(took * ROUND_TRIPS);
        let pause = pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        self.length = pause;
        self.pause = Some(Pause {
            is_in_line: is_called,
            deaf_until: now.after(took.min(pause / ROUND_TRIPS)),
            until: now.after(pause),
            length: pause,
            holds: self.holds_of_others(),
            is_used: false,
        });
    }

    /// How the next request waits; `None` if it is made at once.
    pub(super) fn has_pause(&self) -> bool {
        self.pause.is_some()
    }

    pub(super) fn take_pause(&mut self) -> Option<Pause> {
        let pause = self.pause.take()?;
        self.is_pausing = true;
        Some(pause)
    }

    /// Records at `now` a pause after which this client got the lock.
    pub(super) fn ended(&mut self, now: Moment, pause: &Pause) {
        if !std::mem::take(&mut self.is_pausing) {
            return;
        }
        if pause.holds > 0 {
            // There were fewer than expected.
            self.owners.pop_back();
        }
        if pause.is_used {
            self.unused = 0;
            self.next = None;
            self.length -= self.length / SHORTENED;
        } else if self.length < LONGEST_PAUSE {
            self.length *= 2;
        } else {
            self.unused = (self.unused + 1).min(RAREST);
            self.next = Some(now.after(self.length * (1 << self.unused)));
        }
    }

    /// True if it knows nothing that a new one would not know.
    pub(super) fn is_fresh(&self) -> bool {
        !self.is_contended && self.unused == 0
    }

    /// How many threads of other libraries compete.
    fn others(&self) -> u64 {
        let known: BTreeSet<&String> = self.owners.iter().collect();
        known.len().max(1) as u64
    }

    /// Counts a turn with this many `holds`. It costs at most one hold of each other thread.
    fn owe(&mut self, holds: u64) {
        let (others, threads) = (self.others() as f32, self.threads.max(1));
        let turn = others * holds.min(threads) as f32 / threads as f32;
        self.owed = self.owed.min(1.0) + turn;
    }

    /// How many holds of others follow now.
    fn holds_of_others(&mut self) -> u32 {
        self.pauses = (self.pauses + 1) % ONE_MORE_AFTER;
        let holds = self.owed as u32;
        self.owed = self.owed.fract();
        holds + u32::from(self.pauses == 0)
    }
}

#[cfg(test)]
mod tests;
