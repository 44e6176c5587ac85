//! From lines to calls, holds and disturbances.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::machine::Machine;
use crate::log::{Event, Record};

/// A call, and the hold that it gave: process, thread, and the number of the call there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId {
    pub process: u32,
    pub thread: u32,
    pub call: u64,
}

impl HoldId {
    pub fn of(record: &Record, call: u64) -> Self {
        Self {
            process: record.process,
            thread: record.thread,
            call,
        }
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            process,
            thread,
            call,
        } = self;
        write!(f, "process {process} thread {thread} call {call}")
    }
}

#[derive(Clone, Debug)]
pub struct Call {
    pub lock: u32,
    pub asked: u64,
    /// Milliseconds; 0: as long as others hold the lock.
    pub budget: u64,
    pub what: String,
    pub answered: Option<u64>,
    /// Of this time the machine gave it nothing, in nanoseconds.
    pub starved: u64,
}

#[derive(Clone, Debug)]
pub struct Hold {
    pub id: HoldId,
    pub lock: u32,
    pub asked: u64,
    /// When the call that took it had returned.
    pub since: u64,
    /// The last time at which the lock is known to have said that it was held; at least `since`.
    pub vouched: Option<u64>,
    pub token: Option<u64>,
}

/// A key that was deleted, at some time between the two.
#[derive(Clone, Copy, Debug)]
pub struct Deletion {
    pub from: u64,
    pub to: u64,
    /// No token that was given before is greater.
    pub token: Option<u64>,
}

impl Deletion {
    /// Whether it can have met the key of this hold: that was there before, as far as is known.
    fn may_end(self, hold: &Hold) -> bool {
        let is_later = |(token, last)| token > last;
        self.to >= hold.asked && !hold.token.zip(self.token).is_some_and(is_later)
    }
}

/// A stretch of time; open to the end if it has none.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub from: u64,
    pub to: u64,
}

impl Span {
    /// What both have in common, in nanoseconds.
    pub fn shared(self, other: Self) -> u64 {
        self.to
            .min(other.to)
            .saturating_sub(self.from.max(other.from))
    }
}

/// All that the checks look at.
#[derive(Debug, Default)]
pub struct History {
    pub calls: BTreeMap<HoldId, Call>,
    pub holds: BTreeMap<HoldId, Hold>,
    /// The same token must come again when a hold is taken once more.
    pub again: Vec<(HoldId, HoldId, Option<u64>, u64)>,
    /// By lock, in the order of their times.
    pub deletions: HashMap<u32, Vec<Deletion>>,
    pub calms: Vec<Span>,
    pub machine: Machine,
    /// By process, when it was killed, or died.
    pub gone: HashMap<u32, u64>,
    pub end: Option<u64>,
}

impl History {
    pub fn of(records: &[Record]) -> Self {
        let mut history = Self::default();
        let mut calm_since = None;
        for record in records {
            history.add(record);
            match record.event {
                Event::Calm => calm_since = Some(record.at),
                Event::Storm | Event::End => {
                    if let Some(from) = calm_since.take() {
                        let to = record.at;
                        history.calms.push(Span { from, to });
                    }
                }
                _ => {}
            }
        }
        history
    }

    fn add(&mut self, record: &Record) {
        let at = record.at;
        match &record.event {
            Event::Asks {
                call,
                lock,
                budget,
                what,
            } => {
                let call = HoldId::of(record, *call);
                let asks = Call {
                    lock: *lock,
                    asked: at,
                    budget: *budget,
                    what: what.clone(),
                    answered: None,
                    starved: 0,
                };
                self.calls.insert(call, asks);
            }
            Event::Has { call, token } => self.has(HoldId::of(record, *call), at, *token),
            Event::HasAgain { call, hold, token } => {
                let call = HoldId::of(record, *call);
                let hold = HoldId::of(record, *hold);
                self.answered(call, at);
                self.again.push((call, hold, *token, at));
            }
            Event::Answered { call, .. } | Event::Wrong { call, .. } => {
                self.answered(HoldId::of(record, *call), at);
            }
            Event::Vouches { hold } => {
                if let Some(hold) = self.holds.get_mut(&HoldId::of(record, *hold)) {
                    hold.vouched = hold.vouched.max(Some(at));
                }
            }
            Event::Killed { process } | Event::Died { process } => {
                self.gone.insert(*process, at);
            }
            Event::Deleted { lock, from, token } => {
                let deletion = Deletion {
                    from: *from,
                    to: at,
                    token: *token,
                };
                self.deletions.entry(*lock).or_default().push(deletion);
            }
            Event::End => self.end = Some(at),
            Event::Starved { call, nanos } => {
                if let Some(call) = self.calls.get_mut(&HoldId::of(record, *call)) {
                    call.starved = *nanos;
                }
            }
            Event::Late { .. } | Event::Pauses { .. } | Event::Continued { .. } => {
                self.machine.add(record);
            }
            Event::Storm | Event::Calm | Event::Stopping => {}
            Event::Lingers { .. } | Event::Left { .. } | Event::Note(_) => {}
        }
    }

    fn answered(&mut self, call: HoldId, at: u64) -> Option<&Call> {
        let call = self.calls.get_mut(&call)?;
        call.answered = Some(at);
        Some(call)
    }

    fn has(&mut self, id: HoldId, since: u64, token: Option<u64>) {
        let Some((lock, asked)) = self.answered(id, since).map(|call| (call.lock, call.asked))
        else {
            return;
        };
        let vouched = None;
        let hold = Hold {
            id,
            lock,
            asked,
            since,
            vouched,
            token,
        };
        self.holds.insert(id, hold);
    }

    /// The first deletion of its key that can have ended the hold.
    pub fn deleted(&self, hold: &Hold) -> Option<Deletion> {
        let deletions = self.deletions.get(&hold.lock)?;
        deletions
            .iter()
            .copied()
            .find(|deletion| deletion.may_end(hold))
    }

    /// When the hold is known to have stood: from the return of its acquire to the last time that it
    /// said so, and no longer than its key may have been there.
    pub fn vouched(&self, hold: &Hold) -> Option<Span> {
        let deleted = self
            .deleted(hold)
            .map_or(u64::MAX, |deletion| deletion.from);
        let (from, to) = (hold.since, hold.vouched?.min(deleted));
        (from <= to).then_some(Span { from, to })
    }
}
