//! Checks that Redis executed queries only within their holds, and in their order.

use std::collections::HashSet;

use super::Violation;
use crate::record::{Event, Record};

/// How the keys end to which the queries of a lock append their holds and numbers: `HOLD/NUMBER`.
pub(super) const QUERIES: &str = "}:queries";

/// Finds queries that were executed after one of the next hold, or after a later one of their hold.
pub(super) fn check(records: &[Record]) -> impl Iterator<Item = Violation> {
    records.iter().filter_map(|record| {
        let Event::Left { entry, .. } = &record.event else {
            return None;
        };
        let (key, executed) = entry.split_once(" = ")?;
        let late = first_late(executed).filter(|_| key.ends_with(QUERIES))?;
        let what = format!("{late} was executed late: {key}");
        Some(Violation::new("late query", record.at, what))
    })
}

fn first_late(executed: &str) -> Option<&str> {
    let (mut ended, mut last) = (HashSet::new(), ("", 0));
    executed.split(' ').find(|query| {
        let (hold, number) = query.rsplit_once('/').unwrap_or_default();
        let number: u64 = number.parse().unwrap_or_default();
        let is_late = match hold == last.0 {
            true => number <= last.1,
            false => {
                ended.insert(last.0);
                ended.contains(hold)
            }
        };
        last = (hold, number);
        is_late
    })
}
