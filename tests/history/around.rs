//! Prints the records around a violation.

use std::io::{self, Write};
use std::time::Duration;

use crate::record::{Event, Record};

/// Records this close to the violation are printed, except confirmations.
const AROUND: Duration = Duration::from_millis(20);

/// The most records that are printed before the violation, and after it.
const MOST: [usize; 2] = [60, 20];

/// Prints those of `records`, which are in the order of their times.
pub fn print(out: &mut impl Write, records: &[Record], at: u64) -> io::Result<()> {
    let is_shown = |record: &&Record| {
        let is_near = u128::from(record.at.abs_diff(at)) <= AROUND.as_nanos();
        is_near && !matches!(record.event, Event::Vouches { .. })
    };
    let (before, after) = records.split_at(records.partition_point(|record| record.at <= at));
    let mut before: Vec<_> = before.iter().rev().filter(is_shown).take(MOST[0]).collect();
    before.reverse();
    writeln!(out, "records around the first violation:")?;
    let after = after.iter().filter(is_shown).take(MOST[1]);
    before
        .into_iter()
        .chain(after)
        .try_for_each(|record| writeln!(out, "{record}"))
}
