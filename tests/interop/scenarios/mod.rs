//! The scenarios: one file for each group.

mod contention;
mod fair;
mod fenced;
mod force;
mod latch;
mod leased;
mod locks;
mod multi;
mod permits;
mod read_write;

use std::time::Duration;

use crate::Result;
use crate::checks::{Check, Outcome};
use crate::party::Side;
use crate::stage::Cast;
use crate::support::unique;

/// The kinds of locks that have an owner and exclude all others.
pub const KINDS: [&str; 4] = ["plain", "fenced", "fair", "write"];

/// From a release in one process until a waiting thread of the other goes on.
const WAKE_UP: Duration = Duration::from_millis(100);

/// The tolerance for times: the scheduling of a busy machine.
const SLIP: Duration = Duration::from_millis(500);

/// In the order of the report.
pub fn all() -> Vec<Check> {
    let groups = [
        locks::checks(),
        force::checks(),
        contention::checks(),
        fenced::checks(),
        fair::checks(),
        read_write::checks(),
        permits::checks(),
        leased::checks(),
        latch::checks(),
        multi::checks(),
    ];
    groups.into_iter().flatten().collect()
}

/// The reply to the unlock of a free lock, which another process may have freed.
fn unlock_of_a_free_lock(kind: &str, side: Side) -> &'static str {
    match (kind, side) {
        // The script of Redisson's fair lock reports success.
        ("fair", Side::Java) => "ok",
        _ => side.not_held(),
    }
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

/// Threads of both processes acquire permits of this kind of semaphore.
fn share_permits(Cast { stage, kind, .. }: Cast<'_>) -> Outcome {
    const LIMIT: u64 = 3;
    const TIME: Duration = Duration::from_secs(2);
    let (name, gauge) = (unique(kind), unique("gauge"));
    let java = stage.java.thread(1);
    java.expect(&format!("{kind}-set {name} {LIMIT}"), "true")?;
    let command = format!(
        "{kind}-contend {name} {gauge} {LIMIT} 4 {}",
        TIME.as_millis()
    );
    let [java, rust] = [&stage.java, &stage.rust].map(|party| party.thread(1).begin(&command));
    let [java, rust] = [java?.number()?, rust?.number()?];
    let left = stage.java.thread(1);
    let left = left.number(&format!("{kind}-available {name}"))?;
    ensure(left == LIMIT, format!("{left} permits are left"))?;
    ensure(java > 0 && rust > 0, format!("Java {java}, Rust {rust}"))?;
    Ok(format!(
        "Java {java} + Rust {rust} in {TIME:?}, never more than {LIMIT} at once"
    ))
}
