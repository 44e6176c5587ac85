//! Checks that the results of calls agree with the holds, so that the history of a lock has an
//! order in which each call takes effect at one time between its begin and its return.
//!
//! A hold is certain from the return of its acquire to its last confirmation, if its key was not
//! deleted. A lock may be in use while any call for it has not returned, and for some time after
//! that and after a hold. So these are wrong:
//!
//! | result | while |
//! |---|---|
//! | a call acquires the lock | another hold is certain all the time |
//! | the lock is free, or all permits are available | a hold is certain all the time |
//! | the lock is held, or permits are not available | no other thread may use it |
//! | a hold is lost | its lease is renewed, and its key was not deleted |
//!
//! The last two are known only in a calm: before, requests may be executed late.

use std::collections::BTreeMap;
use std::time::Duration;

use super::calls::{Call, Hold};
use super::exclusion::Overlap;
use super::span::Span;
use super::{Bounds, History, HoldId, Violation, nanos};

/// What a call says about a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It could not be acquired.
    Busy,
    Locked(bool),
    Available(i64),
}

/// The latest ends of spans: of one thread, and of another one.
#[derive(Clone, Copy, Default)]
struct Latest([Option<(u64, HoldId)>; 2]);

/// The latest ends for one lock: of what does not read, and of what reads.
type Ends = [Latest; 2];

/// The spans of one lock, their threads, and whether they read.
type Spans = Vec<(Span, HoldId, bool)>;

pub(super) fn check(history: &History, bounds: &Bounds) -> Vec<Violation> {
    let mut certain: BTreeMap<u32, Spans> = BTreeMap::new();
    let mut used: BTreeMap<u32, Spans> = BTreeMap::new();
    for hold in history.holds.values() {
        if let Some(span) = history.vouched(hold) {
            let spans = certain.entry(hold.lock).or_default();
            spans.push((span, hold.id, hold.reads));
        }
        let (from, to) = (hold.asked, hold.vouched.unwrap_or(hold.since));
        let spans = used.entry(hold.lock).or_default();
        spans.push((Span { from, to }, hold.id, hold.reads));
        // The lock may have been reserved for a reader, then also against readers.
        let to = hold.since;
        spans.extend(hold.reads.then_some((Span { from, to }, hold.id, false)));
    }
    let mut answers: BTreeMap<u32, Vec<(HoldId, &Call, Answer)>> = BTreeMap::new();
    for (id, call) in &history.calls {
        let answer = answer_of(call, bounds);
        if let Some(answer) = answer {
            let answers = answers.entry(call.lock).or_default();
            answers.push((*id, call, answer));
        }
        if matches!(answer, None | Some(Answer::Busy)) {
            let gone = history.gone.get(&id.process).copied();
            let (from, to) = (call.asked, call.answered.or(gone).unwrap_or(u64::MAX));
            let reads = history.reads.contains(id);
            let spans = used.entry(call.lock).or_default();
            spans.push((Span { from, to }, *id, false));
            // Then the lock is also kept from its own thread.
            let (kept, none) = (call.kept(), HoldId { thread: 0, ..*id });
            let to = to.saturating_add(kept);
            spans.extend((kept > 0).then_some((Span { from, to }, none, reads)));
        }
    }
    for spans in certain.values_mut().chain(used.values_mut()) {
        spans.sort_by_key(|(span, ..)| span.from);
    }
    let delivered = nanos(bounds.delivered);
    let calms = history.calms_without_pauses().into_iter();
    let calms = calms.map(|Span { from, to }| Span {
        from: from.saturating_add(delivered),
        to,
    });
    let calms: Vec<Span> = calms.collect();
    let mut violations = Vec::new();
    if bounds.permits.is_none() {
        violations.extend(granted_beside_others(history, &certain));
    }
    for (lock, answers) in answers {
        let certain = certain.get(&lock).map_or(&[][..], Vec::as_slice);
        violations.extend(free_although_held(history, bounds, lock, &answers, certain));
        let used = used.get(&lock).map_or(&[][..], Vec::as_slice);
        violations.extend(held_although_free(history, bounds, &calms, answers, used));
    }
    violations.extend(lost_without_reason(history, bounds, &calms));
    violations
}

fn answer_of(call: &Call, bounds: &Bounds) -> Option<Answer> {
    match (&*call.what, &*call.answer) {
        ("is_locked" | "force_unlock", answer) => answer.parse().ok().map(Answer::Locked),
        ("available", answer) => answer.parse().ok().map(Answer::Available),
        // A part of a call for several locks may be free, and too many permits never are.
        (_, "held by another") => {
            let can_have = call.permits <= bounds.permits.unwrap_or(1);
            (can_have && call.together.is_empty()).then_some(Answer::Busy)
        }
        _ => None,
    }
}

/// Finds each hold whose call was executed within a certain hold of another thread.
fn granted_beside_others(history: &History, certain: &BTreeMap<u32, Spans>) -> Vec<Violation> {
    let mut by_lock: BTreeMap<u32, Vec<&Hold>> = BTreeMap::new();
    for hold in history.holds.values() {
        // A confirmed hold is checked with the others.
        let deleted = history.deleted(hold);
        let is_kept = deleted.is_none_or(|deletion| deletion.from > hold.since);
        if hold.vouched.is_none() && is_kept {
            by_lock.entry(hold.lock).or_default().push(hold);
        }
    }
    let mut violations = Vec::new();
    for (lock, mut holds) in by_lock {
        holds.sort_by_key(|hold| hold.asked);
        let spans = certain.get(&lock).map_or(&[][..], Vec::as_slice);
        let mut begun = Begun::of(spans);
        for hold in holds {
            let [exclusive, reading] = *begun.by(hold.asked);
            let writer = exclusive.of_others(hold.id);
            let reader = reading.of_others(hold.id).filter(|_| !hold.reads);
            let ends = |other: &(u64, HoldId)| other.0 >= hold.since;
            let Some(&(_, other)) = writer.iter().chain(&reader).find(|other| ends(other)) else {
                continue;
            };
            let found = Overlap {
                lock,
                holders: [other, hold.id],
                has_reader: hold.reads || history.reads.contains(&other),
                time: Duration::ZERO,
                at: hold.since,
            };
            violations.push(found.violation());
        }
    }
    violations
}

/// Finds answers that a lock is free during a certain hold. Not after a failover: clients may ask
/// the old master.
fn free_although_held(
    history: &History,
    bounds: &Bounds,
    lock: u32,
    answers: &[(HoldId, &Call, Answer)],
    certain: &[(Span, HoldId, bool)],
) -> Vec<Violation> {
    let mut deletions = history.deletions.get(&lock).into_iter().flatten();
    if deletions.any(|deletion| !deletion.is_certain) {
        return Vec::new();
    }
    let all = i64::from(bounds.permits.unwrap_or(1));
    let is_free = |answer: Answer| match answer {
        Answer::Locked(is_locked) => !is_locked,
        Answer::Available(available) => available >= all,
        Answer::Busy => false,
    };
    let mut answers: Vec<_> = answers
        .iter()
        .filter(|(.., answer)| is_free(*answer))
        .collect();
    answers.sort_by_key(|(_, call, _)| call.asked);
    let mut begun = Begun::of(certain);
    let wrong = answers.into_iter().filter_map(|(id, call, _)| {
        let (held_until, _) =
            begun.by(call.asked)[usize::from(history.reads.contains(id))].any()?;
        (held_until >= call.answered?).then(|| wrong(*id, call))
    });
    wrong.collect()
}

/// Finds answers that a lock is held although no other thread may use it.
fn held_although_free(
    history: &History,
    bounds: &Bounds,
    calms: &[Span],
    mut answers: Vec<(HoldId, &Call, Answer)>,
    used: &[(Span, HoldId, bool)],
) -> Vec<Violation> {
    let all = i64::from(bounds.permits.unwrap_or(1));
    // An idle grant is released, or handed over.
    let free = nanos(bounds.reuse + bounds.slip);
    answers.retain(|(_, call, answer)| {
        let is_held = match answer {
            Answer::Busy => true,
            Answer::Locked(is_locked) => *is_locked,
            Answer::Available(available) => *available != all,
        };
        is_held && is_in_calm(calms, call.asked.saturating_sub(free), call.answered)
    });
    answers.sort_by_key(|(_, call, _)| call.answered);
    let mut begun = Begun::of(used);
    let wrong = answers.into_iter().filter_map(|(id, call, answer)| {
        let [exclusive, reading] = *begun.by(call.answered?);
        let reads = history.reads.contains(&id);
        let ends = match answer {
            Answer::Busy => {
                let reading = reading.of_others(id).filter(|_| !reads);
                exclusive.of_others(id).max(reading)
            }
            // It frees a lock for all.
            _ if call.what == "force_unlock" => exclusive.any().max(reading.any()),
            _ if reads => reading.any(),
            _ => exclusive.any(),
        };
        let used_until = ends.map_or(0, |(to, _)| to);
        let user = ends.map_or(id, |(_, user)| user);
        let (from, to) = (used_until, call.asked);
        let slip = nanos(history.machine.slip(user.process, Span { from, to }));
        (used_until.saturating_add(free + slip) < call.asked).then(|| wrong(id, call))
    });
    wrong.collect()
}

/// Finds holds that their threads have lost in a calm although their leases are renewed.
fn lost_without_reason(history: &History, bounds: &Bounds, calms: &[Span]) -> Vec<Violation> {
    let lost = history.lost.iter().filter_map(|(call, hold)| {
        let hold = history.holds.get(hold)?;
        let acquired = history.calls.get(&hold.id)?;
        let lost = history.calls.get(call)?;
        let (from, to) = (hold.since, lost.answered?);
        let slip = history.machine.slip(call.process, Span { from, to });
        let is_lost = lost.lock == hold.lock
            && may_concern(history, *call, hold)
            && lost.together.is_empty()
            && slip <= bounds.slip
            && !acquired.has_limited_lease()
            && history.deleted(hold).is_none()
            && is_in_calm(calms, hold.asked, lost.answered);
        is_lost.then(|| wrong(*call, lost))
    });
    lost.collect()
}

/// False if the call found the other lock of a read-write lock lost: its thread holds both.
fn may_concern(history: &History, call: HoldId, hold: &Hold) -> bool {
    let what = history.calls.get(&call).map(|call| &*call.what);
    match what {
        // It acquires the read lock, and finds that the write lock is lost.
        Some("downgrade") => !hold.reads,
        Some("unlock" | "drop" | "extend" | "query") => hold.reads == history.reads.contains(&call),
        _ => true,
    }
}

fn wrong(id: HoldId, call: &Call) -> Violation {
    let answer = format!("{}: {}", call.what, call.answer);
    Violation::wrong_result(id, &answer, call.asked)
}

/// True if these times are in one of these calms.
fn is_in_calm(calms: &[Span], from: u64, to: Option<u64>) -> bool {
    let is_within = |calm: &Span| calm.from <= from && to.is_some_and(|to| to <= calm.to);
    calms.iter().any(is_within)
}

/// The latest ends of the spans that have begun by some time.
struct Begun<'a> {
    /// In the order of their begins.
    spans: &'a [(Span, HoldId, bool)],
    ends: Ends,
}

impl<'a> Begun<'a> {
    fn of(spans: &'a [(Span, HoldId, bool)]) -> Self {
        let ends = Ends::default();
        Self { spans, ends }
    }

    /// Called with rising times.
    fn by(&mut self, time: u64) -> &Ends {
        while let [(span, id, reads), rest @ ..] = self.spans
            && span.from <= time
        {
            self.ends[usize::from(*reads)].add(span.to, *id);
            self.spans = rest;
        }
        &self.ends
    }
}

impl Latest {
    fn add(&mut self, to: u64, id: HoldId) {
        let Self([latest, other]) = self;
        let new = Some((to, id));
        if latest.is_some_and(|(_, latest)| !latest.is_in_thread_of(id)) {
            if new.max(*latest) == new {
                *other = latest.replace((to, id));
            } else {
                *other = new.max(*other);
            }
        } else {
            *latest = new.max(*latest);
        }
    }

    fn any(self) -> Option<(u64, HoldId)> {
        self.0[0]
    }

    /// The latest end of a span of another thread.
    fn of_others(self, id: HoldId) -> Option<(u64, HoldId)> {
        let mut ends = self.0.into_iter().flatten();
        ends.find(|(_, other)| !other.is_in_thread_of(id))
    }
}
