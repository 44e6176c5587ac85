//! The report: counts of events, and the violations.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use crate::Result;
use crate::around;
use crate::checker::Violation;
use crate::record::{CONDUCTOR, Event, Record};

/// The most violations to print.
const SHOWN: usize = 20;

pub fn print(records: &[Record], violations: &[Violation], log: &Path) -> Result<()> {
    let mut out = io::stdout().lock();
    let first = records
        .iter()
        .find(|record| matches!(record.event, Event::Storm));
    let end = records
        .iter()
        .find(|record| matches!(record.event, Event::Stopping));
    if let Some((first, end)) = first.zip(end) {
        let seconds = Duration::from_nanos(end.at - first.at).as_secs_f64();
        let acquired = acquired(records);
        writeln!(out, "{:.0} acquisitions/s", acquired as f64 / seconds)?;
    }
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for record in records {
        *counts.entry(name(&record.event)).or_default() += 1;
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    writeln!(out, "{}", counts.join(", "))?;
    for violation in violations.iter().take(SHOWN) {
        writeln!(out, "VIOLATION {violation}")?;
    }
    if violations.is_empty() {
        return Ok(writeln!(out, "no violation")?);
    }
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for violation in violations {
        *kinds.entry(violation.kind).or_default() += 1;
    }
    for (kind, count) in kinds {
        writeln!(out, "{count} x {kind}")?;
    }
    writeln!(out, "the logs are in {}", log.display())?;
    Ok(around::print(&mut out, records, violations[0].at)?)
}

fn name(event: &Event) -> &'static str {
    match event {
        Event::Asks { .. } => "calls",
        Event::Has { .. } => "holds",
        Event::HasAgain { .. } => "nested holds",
        Event::Held { .. } => "short holds",
        Event::Answered { answer, .. } if answer.starts_with("unavailable: ") => "unavailable",
        Event::Answered { answer, .. } if answer.starts_with("lost: ") => "lost",
        Event::Vouches { .. } => "confirmations",
        Event::Refused { .. } => "refused log-ins",
        Event::Pauses { .. } => "pauses",
        Event::Killed { .. } => "kills",
        Event::Deleted { .. } => "deletions",
        Event::Rotates => "rotations",
        Event::Storm => "storms",
        Event::Note { .. } => "notes",
        _ => "others",
    }
}

/// How often a thread acquired a lock that it did not hold.
pub fn acquired(records: &[Record]) -> usize {
    let is_first =
        |record: &&Record| matches!(record.event, Event::Has { .. } | Event::Held { .. });
    records.iter().filter(is_first).count()
}

/// False if the workers held the locks too rarely for the run to prove anything.
pub fn has_enough_holds(records: &[Record]) -> bool {
    let held = |record: &&Record| {
        record.process != CONDUCTOR && matches!(record.event, Event::Vouches { .. })
    };
    records.iter().filter(held).count() >= 100
}
