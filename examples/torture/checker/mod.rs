//! What the log must not say. A pure function of its records.

mod exclusion;
mod history;
mod machine;
mod progress;
mod tokens;
mod violation;

use std::time::Duration;

pub use history::{History, HoldId};
pub use violation::Violation;

use crate::log::{Event, Record};

/// What the checker takes for too long.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// No lease of the run is longer.
    pub longest_lease: Duration,
    /// So long a lock may be with nobody though somebody waits for it and nothing is disturbed.
    pub idle: Duration,
    /// How late a call may be seen to return: the scheduling of a busy machine.
    pub slip: Duration,
}

/// Everything in `records`, which are in the order of their times, that no lock should do.
pub fn check(records: &[Record], bounds: &Bounds) -> Vec<Violation> {
    let history = History::of(records);
    let mut violations = exclusion::check(&history, bounds);
    violations.extend(tokens::check(&history));
    violations.extend(progress::check(&history, bounds));
    violations.extend(records.iter().filter_map(single_record));
    violations.sort_by_key(Violation::at);
    violations
}

/// What needs no other record to be seen wrong.
fn single_record(record: &Record) -> Option<Violation> {
    match &record.event {
        Event::Wrong { call, answer } => Some(Violation::WrongAnswer {
            call: HoldId::of(record, *call),
            answer: answer.clone(),
            at: record.at,
        }),
        Event::Died { process } => Some(Violation::Died {
            process: *process,
            at: record.at,
        }),
        Event::Lingers { process } => Some(Violation::Lingers {
            process: *process,
            at: record.at,
        }),
        Event::Left { lock, what } => Some(Violation::LeftOver {
            lock: *lock,
            what: what.clone(),
            at: record.at,
        }),
        _ => None,
    }
}
