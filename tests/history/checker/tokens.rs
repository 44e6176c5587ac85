//! Checks that a later hold has a greater token, that no two holds share one, and that a nested
//! acquire has the token of its hold.

use std::collections::BTreeMap;

use super::calls::Hold;
use super::{History, Violation};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut by_lock: BTreeMap<u32, Vec<(&Hold, u64)>> = BTreeMap::new();
    for hold in history.holds.values() {
        if let Some(token) = hold.token {
            by_lock.entry(hold.lock).or_default().push((hold, token));
        }
    }
    let mut violations = Vec::new();
    for holds in by_lock.values_mut() {
        violations.extend(falls_among_confirmed(history, holds));
        violations.extend(falls_between_calls(history, holds));
        let new = repeats(history, holds).into_iter();
        let new: Vec<_> = new.filter(|found| !violations.contains(found)).collect();
        violations.extend(new);
    }
    violations.extend(changes(history));
    violations
}

/// Confirmed holds do not overlap, so they were granted in the order of their times.
fn falls_among_confirmed(history: &History, holds: &[(&Hold, u64)]) -> Vec<Violation> {
    let mut confirmed: Vec<_> = holds
        .iter()
        .filter(|(hold, _)| history.vouched(hold).is_some())
        .collect();
    confirmed.sort_by_key(|(hold, _)| hold.since);
    let pairs = confirmed.windows(2);
    pairs
        .filter_map(|pair| fall((pair[0].0, pair[0].1), (pair[1].0, pair[1].1)))
        .collect()
}

/// A call that began after another one had returned was granted later, confirmed or not. Except if
/// the threads of its process did not know that their grant was deleted.
fn falls_between_calls(history: &History, holds: &mut [(&Hold, u64)]) -> Vec<Violation> {
    let mut returned = holds.to_vec();
    returned.sort_by_key(|(hold, _)| hold.since);
    holds.sort_by_key(|(hold, _)| hold.asked);
    let mut earlier = returned.into_iter().peekable();
    let mut greatest: Option<(&Hold, u64)> = None;
    let mut violations = Vec::new();
    for &(hold, token) in &*holds {
        while let Some(before) = earlier.next_if(|(before, _)| before.since < hold.asked) {
            if greatest.is_none_or(|(_, token)| token < before.1) {
                greatest = Some(before);
            }
        }
        if !history.began_after_deletion(hold) {
            violations.extend(greatest.and_then(|before| fall(before, (hold, token))));
        }
    }
    violations
}

/// Two holds with one token, whenever they were granted, but not by two masters.
fn repeats(history: &History, holds: &mut [(&Hold, u64)]) -> Vec<Violation> {
    holds.sort_by_key(|(hold, token)| (*token, hold.since));
    let pairs = holds.windows(2).filter(|pair| pair[0].1 == pair[1].1);
    let of_one_master = pairs.filter(|pair| {
        let mut holds = pair.iter().map(|(hold, _)| *hold);
        !holds.any(|hold| history.may_be_of_old_master(hold))
    });
    of_one_master
        .filter_map(|pair| fall(pair[0], pair[1]))
        .collect()
}

fn fall((first, smaller): (&Hold, u64), (second, token): (&Hold, u64)) -> Option<Violation> {
    (token <= smaller).then(|| {
        let what = format!(
            "lock {}: {} has token {token} after {} had {smaller}",
            second.lock, second.id, first.id
        );
        Violation::new("token fell", second.since, what)
    })
}

fn changes(history: &History) -> Vec<Violation> {
    let changed = history.again.iter().filter(|(_, hold, token, _)| {
        let outer = history.holds.get(hold).and_then(|hold| hold.token);
        outer.is_some() && token.is_some() && outer != *token
    });
    changed
        .map(|&(call, hold, _, at)| {
            let what = format!("{call} has another token than its outer hold, {hold}");
            Violation::new("token changed", at, what)
        })
        .collect()
}
