//! The scenarios: one file for each group.

mod contention;
mod fenced;
mod force;
mod multi;
mod plain;

use std::time::Duration;

use crate::Result;
use crate::checks::Check;

/// In the order of the report.
pub fn all() -> Vec<Check> {
    let groups = [
        plain::checks(),
        force::checks(),
        contention::checks(),
        fenced::checks(),
        multi::checks(),
    ];
    groups.into_iter().flatten().collect()
}

/// Fails if something took longer than its bound.
fn within(bound: Duration, what: &str, took: Duration) -> Result<()> {
    if took <= bound {
        return Ok(());
    }
    Err(format!("{what} took {took:.1?}, more than {bound:.1?}").into())
}

fn ensure(condition: bool, or_else: impl Into<String>) -> Result<()> {
    if condition {
        return Ok(());
    }
    Err(or_else.into().into())
}
