//! Checks that nothing stays in Redis after the end of all clients but what is documented.

use std::collections::HashMap;

use super::queries::QUERIES;
use super::{Bounds, History, Violation};
use crate::record::{Event, Record};

/// What the names of keys contain that stay for some time after the last request, as documented,
/// and for how many milliseconds at most.
const STAY: [(&str, i64); 6] = [
    // Lines.
    ("leasehold_line:", 90_000),
    // Numbers of queries: long if an earlier one may still be executed.
    ("}:leasehold:query", 86_400_000),
    // Records of requests.
    ("}:leasehold:", 120_000),
    ("}:condition", 10_000),
    // Queues of fair locks.
    ("redisson_lock_queue:", 3_700_000),
    ("redisson_lock_timeout:", 3_700_000),
];

/// What the names of keys contain that never end, as documented: last tokens, the counts of
/// latches, leases of permits, and what queries wrote. The next request removes the leases that have ended.
const NEVER_END: [&str; 4] = ["redisson_lock_token:", "latch:", LEASES, QUERIES];

const LEASES: &str = "}:timeout";

/// Finds keys that should have ended, semaphores that lack permits, and places of clients that were
/// not killed.
pub(super) fn check(records: &[Record], history: &History, bounds: &Bounds) -> Vec<Violation> {
    let left = records.iter().filter_map(|record| match &record.event {
        Event::Left { ends, entry } => {
            let (key, value) = entry.split_once(" = ")?;
            Some((record.at, *ends, key, value))
        }
        _ => None,
    });
    let left: Vec<(u64, i64, &str, &str)> = left.collect();
    let values: HashMap<&str, &str> = left
        .iter()
        .map(|(_, _, key, value)| (*key, *value))
        .collect();
    let may_stay = |ends: i64, key: &str, value: &str| {
        let has = |name: &str| key.contains(name);
        if let Some((_, longest)) = STAY.iter().find(|(name, _)| has(name)) {
            // A request that is executed late leaves a place, until a release calls it.
            let is_used = key.contains("torture:");
            return (0..=*longest).contains(&ends)
                && !(is_used && has_place_of_ended(history, value));
        }
        let leases = values.get(&*format!("{{{key}{LEASES}"));
        let leased = leases.map_or(0, |leases| leases.split(' ').count());
        NEVER_END.into_iter().any(has)
            || (bounds.permits.zip(value.parse().ok()))
                .is_some_and(|(all, free): (u32, usize)| all as usize == leased + free)
    };
    let found = left
        .iter()
        .filter(|(_, ends, key, value)| !may_stay(*ends, key, value));
    found
        .map(|&(at, _, key, value)| {
            Violation::new("left over", at, format!("{key} is still in Redis: {value}"))
        })
        .collect()
}

/// True if a client that was not killed has a place in this line.
fn has_place_of_ended(history: &History, line: &str) -> bool {
    let places = line.split("{leasehold:").skip(1);
    let ids = places.filter_map(|place| place.split('}').next());
    let mut processes = ids.filter_map(|id| history.clients.get(id));
    processes.any(|process| !history.gone.contains_key(process))
}
