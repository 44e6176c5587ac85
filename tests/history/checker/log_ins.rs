//! Checks that a process logs in with the new password soon after the old one was refused.

use std::collections::HashMap;
use std::time::Duration;

use super::machine::Machine;
use super::span::Span;
use super::{Bounds, HoldId, Violation};
use crate::record::{Event, Record};

/// Finds refused log-ins before any change of the password, and those that follow the first of
/// their process since the last change by more than the bound.
pub(super) fn check(records: &[Record], machine: &Machine, bounds: &Bounds) -> Vec<Violation> {
    let mut first: Option<HashMap<u32, u64>> = None;
    let mut violations = Vec::new();
    for record in records {
        let (process, to) = (record.process, record.at);
        match &record.event {
            Event::Rotates => first = Some(HashMap::new()),
            Event::Refused { call, answer } => {
                let since = first.as_mut();
                let from = since.map(|first| *first.entry(process).or_insert(to));
                let is_allowed = from.is_some_and(|from| {
                    let paused = machine.paused(process, Span { from, to });
                    Duration::from_nanos(to - from).saturating_sub(paused) <= bounds.log_in
                });
                if !is_allowed {
                    violations.push(Violation::wrong_result(
                        HoldId::of(record, *call),
                        answer,
                        to,
                    ));
                }
            }
            _ => {}
        }
    }
    violations
}
