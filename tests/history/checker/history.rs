//! Turns records into calls, holds, deletions and calms.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::calls::{Call, Hold, HoldId, Notification, Wait};
use super::deletion::Deletion;
use super::machine::Machine;
use super::span::Span;
use super::{Bounds, nanos};
use crate::record::{Event, Record};

/// How long after a pause the clients have answered their calls, in nanoseconds.
const ANSWERED: u64 = 1_000_000_000;

/// The ids of the clients in the queue of a fair lock, at some time within `span`.
#[derive(Clone, Debug)]
pub struct Queue {
    pub span: Span,
    pub clients: Vec<String>,
}

/// The input of the checks.
#[derive(Debug, Default)]
pub struct History {
    pub calls: BTreeMap<HoldId, Call>,
    pub holds: BTreeMap<HoldId, Hold>,
    /// Nested acquires: call, outer hold, token, time.
    pub again: Vec<(HoldId, HoldId, Option<u64>, u64)>,
    /// By lock number, in the order of their times.
    pub deletions: HashMap<u32, Vec<Deletion>>,
    /// By lock number: when a write to the lock may have been lost, or was at one of two masters.
    pub failovers: HashMap<u32, Vec<Span>>,
    pub calms: Vec<Span>,
    /// In the order of their times.
    pub notifications: Vec<Notification>,
    pub machine: Machine,
    /// The calls that acquire a read lock.
    pub reads: HashSet<HoldId>,
    /// The calls that found a loss, and the hold for which their threads vouched last.
    pub lost: Vec<(HoldId, HoldId)>,
    /// By process and thread: the hold for which it vouched last.
    last_vouched: HashMap<(u32, u32), HoldId>,
    /// Calls read, or acquire permits.
    pub shares: bool,
    /// The calls that waited for a notification and reported none.
    pub not_notified: Vec<HoldId>,
    /// How many permits calls acquire, if it may be more than one.
    needs: HashMap<HoldId, u32>,
    /// By lock number: when its line was lost.
    pub lost_lines: HashMap<u32, Vec<u64>>,
    /// The processes whose user may not subscribe.
    pub unsubscribed: HashSet<u32>,
    /// The process numbers of clients, by their ids.
    pub clients: HashMap<String, u32>,
    /// By lock number, in the order of their times.
    pub queues: BTreeMap<u32, Vec<Queue>>,
    /// By lock number, in the order of their times: which clients in the line get no message.
    pub not_subscribed: BTreeMap<u32, Vec<(u64, Vec<String>)>>,
    /// How long threads may begin holds on one grant, in nanoseconds.
    pub(super) reuse: u64,
    /// By process number: when it was killed or died.
    pub gone: HashMap<u32, u64>,
    pub end: Option<u64>,
}

impl History {
    pub fn of(records: &[Record], bounds: &Bounds) -> Self {
        let mut history = Self {
            reuse: nanos(bounds.reuse),
            shares: bounds.permits.is_some(),
            ..Self::default()
        };
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
                    together: Vec::new(),
                    waits: None,
                    permits: self.permits(call),
                    asked: at,
                    budget: *budget,
                    what: what.clone(),
                    answered: None,
                    answer: String::new(),
                    starved: 0,
                };
                self.calls.insert(call, asks);
            }
            Event::Reads { call } => {
                self.shares = true;
                self.reads.insert(HoldId::of(record, *call));
            }
            Event::Needs { call, permits } => {
                self.needs.insert(HoldId::of(record, *call), *permits);
            }
            Event::Together { call, locks } => {
                if let Some(call) = self.calls.get_mut(&HoldId::of(record, *call)) {
                    call.together.clone_from(locks);
                }
            }
            Event::Waits {
                call,
                condition,
                within,
            } => {
                let (condition, within) = (*condition, *within);
                if let Some(call) = self.calls.get_mut(&HoldId::of(record, *call)) {
                    call.waits = Some(Wait { condition, within });
                }
            }
            Event::Notifies {
                lock,
                condition,
                all,
            } => self.notifications.push(Notification {
                lock: *lock,
                condition: *condition,
                all: *all,
                at,
            }),
            Event::NotNotified { call } => self.not_notified.push(HoldId::of(record, *call)),
            Event::Has { call, token } => self.has(HoldId::of(record, *call), at, *token),
            Event::HasAgain { call, hold, token } => {
                let call = HoldId::of(record, *call);
                let hold = HoldId::of(record, *hold);
                if self.reads.contains(&call) && !self.reads.contains(&hold) {
                    // A read lock within a write lock is a hold of its own.
                    self.has(call, at, *token);
                    if let Some(hold) = self.holds.get_mut(&call) {
                        hold.is_nested = true;
                    }
                } else {
                    self.answered(call, at);
                    self.again.push((call, hold, *token, at));
                }
            }
            Event::Held {
                call,
                lock,
                asked,
                token,
                vouched,
            } => {
                let id = HoldId::of(record, *call);
                let hold = Hold {
                    id,
                    lock: *lock,
                    permits: self.permits(id),
                    asked: *asked,
                    since: at,
                    vouched: Some(*vouched).filter(|vouched| *vouched > 0),
                    token: *token,
                    reads: self.reads.contains(&id),
                    is_released: false,
                    is_nested: false,
                };
                self.holds.insert(id, hold);
            }
            Event::Answered { call, answer } => {
                let call = HoldId::of(record, *call);
                if let Some(call) = self.answered(call, at) {
                    call.answer.clone_from(answer);
                }
                // It has vouched for the hold that it has released.
                let thread = (call.process, call.thread);
                // A loss after that may be of another hold of the thread.
                let last = match answer == "unlocked" {
                    true => self.last_vouched.remove(&thread),
                    false => self.last_vouched.get(&thread).copied(),
                };
                if answer.starts_with("lost") && !answer.contains("shut down") {
                    self.lost.extend(last.map(|last| (call, last)));
                }
                if answer == "unlocked"
                    && let Some(hold) = last.and_then(|last| self.holds.get_mut(&last))
                {
                    hold.is_released = true;
                }
            }
            Event::Refused { call, .. } | Event::Wrong { call, .. } => {
                self.answered(HoldId::of(record, *call), at);
            }
            Event::Vouches { hold } => {
                let id = HoldId::of(record, *hold);
                if let Some(hold) = self.holds.get_mut(&id) {
                    hold.vouched = hold.vouched.max(Some(at));
                    self.last_vouched.insert((id.process, id.thread), id);
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
                    is_certain: true,
                };
                self.deletions.entry(*lock).or_default().push(deletion);
            }
            Event::FailedOver { lock, from, apart } => {
                let failover = Span {
                    from: *apart,
                    to: at,
                };
                self.failovers.entry(*lock).or_default().push(failover);
                self.may_be_lost(*lock, *from, at);
            }
            Event::ClockSet { lock, from } => self.may_be_lost(*lock, *from, at),
            Event::LineLost { lock } => self.lost_lines.entry(*lock).or_default().push(at),
            Event::MayNotSubscribe => {
                self.unsubscribed.insert(record.process);
            }
            Event::Client { id } => {
                self.clients.insert(id.clone(), record.process);
            }
            Event::Waiting {
                lock,
                from,
                clients,
            } => {
                let (from, to) = (*from, at);
                let queue = Queue {
                    span: Span { from, to },
                    clients: clients.clone(),
                };
                self.queues.entry(*lock).or_default().push(queue);
            }
            Event::NotSubscribed { lock, clients } => {
                let list = self.not_subscribed.entry(*lock).or_default();
                list.push((at, clients.clone()));
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
            Event::Storm | Event::Calm | Event::Stopping | Event::Rotates => {}
            Event::Kept { .. }
            | Event::Lingers { .. }
            | Event::Left { .. }
            | Event::Note { .. } => {}
        }
    }

    fn may_be_lost(&mut self, lock: u32, from: u64, to: u64) {
        let deletion = Deletion {
            from,
            to,
            token: None,
            is_certain: false,
        };
        self.deletions.entry(lock).or_default().push(deletion);
    }

    fn permits(&self, call: HoldId) -> u32 {
        self.needs.get(&call).copied().unwrap_or(1)
    }

    fn answered(&mut self, call: HoldId, at: u64) -> Option<&mut Call> {
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
        let is_nested = (self.calls.get(&id)).is_some_and(|call| call.what == "downgrade");
        let hold = Hold {
            id,
            lock,
            permits: self.permits(id),
            asked,
            since,
            vouched,
            token,
            reads: self.reads.contains(&id),
            is_released: false,
            is_nested,
        };
        self.holds.insert(id, hold);
    }

    /// The parts of calms in which no process is paused, or has lost its place by a pause.
    pub fn calms_without_pauses(&self) -> Vec<Span> {
        let mut parts = Vec::new();
        for calm in &self.calms {
            let pauses = self.machine.pauses_of_others(0, *calm);
            let mut pauses: Vec<Span> = pauses.map(|(_, pause)| pause).collect();
            pauses.sort_by_key(|pause| pause.from);
            let mut from = calm.from;
            for pause in pauses {
                if pause.from > from {
                    let to = pause.from;
                    parts.push(Span { from, to });
                }
                from = from.max(pause.to.saturating_add(ANSWERED));
            }
            if calm.to > from {
                let to = calm.to;
                parts.push(Span { from, to });
            }
        }
        parts
    }

    /// How many clients in the line of this lock could not subscribe when they asked last, and died
    /// within `span` or before, or do not wait in all of it. A call does not find that out.
    pub fn silent_without_call(&self, lock: u32, span: Span) -> usize {
        let processes: HashSet<u32> = self.not_subscribed(lock, span).collect();
        let waits = |process: u32| {
            let mut calls = self.calls.iter();
            calls.any(|(id, call)| {
                let is_answered = call.answered.is_some_and(|at| at < span.to);
                let waits = call.asked <= span.from && !is_answered;
                id.process == process && call.lock == lock && waits
            })
        };
        let is_silent = |process: &&u32| self.gone.contains_key(process) || !waits(**process);
        processes.iter().filter(is_silent).count()
    }

    /// The processes whose clients in the line of this lock get no message within `span`.
    pub fn not_subscribed(&self, lock: u32, span: Span) -> impl Iterator<Item = u32> {
        let list = self.not_subscribed.get(&lock);
        let list = list.map_or(&[][..], Vec::as_slice);
        let begin = list.partition_point(|(at, _)| *at <= span.from);
        let list = list[begin.saturating_sub(1)..].iter();
        let seen = list.take_while(move |(at, _)| *at < span.to);
        let clients = seen.flat_map(|(_, clients)| clients);
        clients.filter_map(|client| self.clients.get(client).copied())
    }

    /// True if the time to wait of the call that acquired the hold may have been over before: then
    /// it waits no more.
    pub fn had_ended(&self, hold: &Hold) -> bool {
        let call = self.calls.get(&hold.id);
        let wait = call.and_then(Call::wait);
        wait.is_some_and(|wait| hold.since >= hold.asked.saturating_add(wait))
    }
}
