//! One process frees a lock that the other holds.

use std::time::{Duration, Instant};

use super::{KINDS, SLIP, ensure, unlock_of_a_free_lock, within};
use crate::LEASE;
use crate::checks::{Check, Outcome};
use crate::party::Side;
use crate::stage::{Cast, Stage};
use crate::support::unique;

/// Until the waiting threads of both processes have held the lock.
const GO_ON: Duration = Duration::from_secs(1);

/// Longer than the bounds, so that its end cannot be what wakes a thread.
const LONG_LEASE: Duration = Duration::from_secs(10);

pub fn checks() -> Vec<Check> {
    let check = |kind| {
        [
            Check::both_ways(kind, "force-unlock, waiting threads", waiting),
            Check::once(kind, "force-unlock, the Rust holder", notified),
        ]
    };
    KINDS.into_iter().flat_map(check).collect()
}

/// A thread of each process waits when the process that does not hold the lock frees it.
fn waiting(cast: Cast<'_>) -> Outcome {
    let name = unique(cast.kind);
    let lock = format!("{} {name}", cast.kind);
    let process = cast.stage.start(cast.holder.side(), LONG_LEASE)?;
    let (holder, neighbour) = (process.thread(1), process.thread(2));
    holder.expect(&format!("lock {lock}"), "ok")?;
    let mut waiters = Vec::new();
    for (actor, holds) in [(neighbour, true), (cast.waiter, false)] {
        let acquired = actor.begin(&format!("lock {lock}"))?;
        // A Rust thread that waits for a thread of its own process does not listen.
        if !(holds && actor.side() == Side::Rust) {
            cast.stage.await_waiting(actor, &name)?;
        }
        // It begins when the lock is acquired.
        waiters.push((acquired, actor.begin(&format!("unlock {lock}"))?));
    }
    let start = Instant::now();
    cast.waiter
        .other_thread()
        .expect(&format!("force {lock}"), "true")?;
    let mut report = Vec::new();
    for (acquired, released) in waiters {
        let side = acquired.side();
        let after = acquired.expect("ok")?.at - start;
        released.expect("ok")?;
        within(
            GO_ON + SLIP,
            &format!("the waiting thread of {side}"),
            after,
        )?;
        report.push(format!("{side} goes on after {after:.1?}"));
    }
    let refused = match holder.side() {
        Side::Java => unlock_of_a_free_lock(cast.kind, Side::Java),
        Side::Rust => "error Lost",
    };
    holder.expect(&format!("unlock {lock}"), refused)?;
    Ok(report.join(", "))
}

/// Redisson does not notify a holder.
fn notified(stage: &Stage, kind: &'static str) -> Outcome {
    let lock = format!("{kind} {}", unique(kind));
    let holder = stage.rust.thread(1);
    holder.expect(&format!("lock {lock}"), "ok")?;
    let lost = holder.begin(&format!("lost {lock}"))?;
    let start = Instant::now();
    stage
        .java
        .thread(1)
        .expect(&format!("force {lock}"), "true")?;
    let lost = lost.expect("")?;
    let after = lost.at - start;
    ensure(
        lost.result == "Deleted",
        format!("the reason is {}", lost.result),
    )?;
    within(LEASE * 2 / 3 + SLIP, "the notification", after)?;
    holder.expect(&format!("unlock {lock}"), "error Lost")?;
    Ok(format!("notified after {after:.1?}, lease {LEASE:?}"))
}
