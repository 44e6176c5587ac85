//! When threads that wait for a notification were notified.

use std::collections::BTreeMap;

use super::calls::Wait;
use super::{Bounds, History, HoldId, Violation, nanos};

/// Finds calls that were notified, and reported that their time was over.
pub(super) fn check(history: &History, bounds: &Bounds) -> Vec<Violation> {
    let notified = notified(history, bounds);
    let swallowed = history.not_notified.iter().filter_map(|id| {
        let at = *notified.get(id)?;
        let answer = "no notification, but it was notified";
        Some(Violation::wrong_result(*id, answer, at))
    });
    swallowed.collect()
}

/// By call: from when on it waits for its lock only, as a call that acquires the lock does. It was
/// notified then, or its time was over.
pub(super) fn ready(history: &History, bounds: &Bounds) -> BTreeMap<HoldId, u64> {
    let mut ready = notified(history, bounds);
    for (id, call) in &history.calls {
        if let Some(Wait { within, .. }) = call.waits
            && within > 0
        {
            let over = call.asked.saturating_add(within * 1_000_000);
            let ready = ready.entry(*id).or_insert(over);
            *ready = over.min(*ready);
        }
    }
    ready
}

/// By call: when it was notified.
///
/// A thread whose time is over can be notified until it has the lock. Only the notifications of a
/// calm that has lasted for some time count: before, they may be lost, or meet threads that have
/// died.
fn notified(history: &History, bounds: &Bounds) -> BTreeMap<HoldId, u64> {
    let idle = nanos(bounds.idle);
    let mut notified = BTreeMap::new();
    // By lock and condition, in the order of their begins.
    let mut waits: BTreeMap<(u32, u32), Vec<(u64, HoldId)>> = BTreeMap::new();
    for (id, call) in &history.calls {
        if let Some(Wait { condition, .. }) = call.waits {
            let list = waits.entry((call.lock, condition)).or_default();
            list.push((call.asked, *id));
        }
    }
    waits.values_mut().for_each(|list| list.sort_unstable());
    for notification in &history.notifications {
        let at = notification.at;
        let is_calm = |from: u64, to: u64| (from.saturating_add(idle)..to).contains(&at);
        let list = waits.get(&(notification.lock, notification.condition));
        if !history.calms.iter().any(|calm| is_calm(calm.from, calm.to)) {
            continue;
        }
        for (asked, id) in list.into_iter().flatten() {
            let answered = history.calls[id].answered;
            let gone = history.gone.get(&id.process).copied();
            let is_waiting = *asked < at && answered.or(gone).is_none_or(|end| end > at);
            if is_waiting && !notified.contains_key(id) {
                notified.insert(*id, at);
                if !notification.all {
                    break;
                }
            }
        }
    }
    notified
}
