//! One process frees a lock that the other holds.

use std::time::{Duration, Instant};

use super::{KINDS, unlock_of_a_free_lock, within};
use crate::LEASE;
use crate::checks::{Check, Outcome};
use crate::party::Side;
use crate::stage::Cast;
use crate::support::unique;

/// Until the waiting threads of both processes have held the lock.
const GO_ON: Duration = Duration::from_secs(1);

pub fn checks() -> Vec<Check> {
    let check = |kind| Check::both_ways(kind, "force-unlock by the other", force);
    KINDS.map(check).into()
}

/// A thread of each process waits for the lock meanwhile.
fn force(cast: Cast<'_>) -> Outcome {
    let Cast { holder, waiter, .. } = cast;
    let name = unique(cast.kind);
    let lock = format!("{} {name}", cast.kind);
    holder.expect(&format!("lock {lock}"), "ok")?;
    let mut waiters = Vec::new();
    for side in [Side::Rust, Side::Java] {
        let of_holder = side == holder.side();
        let actor = if of_holder { holder } else { waiter }.other_thread();
        let acquired = actor.begin(&format!("lock {lock}"))?;
        // A Rust thread that waits for a thread of its own process does not listen.
        if side == Side::Java || !of_holder {
            cast.stage.await_waiting(actor, &name)?;
        }
        // It begins when the lock is acquired.
        waiters.push((acquired, actor.begin(&format!("unlock {lock}"))?));
    }
    // Redisson does not notify a holder.
    let lost = match holder.side() {
        Side::Rust => Some(holder.begin(&format!("lost {lock}"))?),
        Side::Java => None,
    };
    let start = Instant::now();
    waiter.expect(&format!("force {lock}"), "true")?;
    let mut report = Vec::new();
    for (acquired, released) in waiters {
        let side = acquired.side();
        let after = acquired.expect("ok")?.at - start;
        released.expect("ok")?;
        within(GO_ON, &format!("the waiting thread of {side}"), after)?;
        report.push(format!("{side} goes on after {after:.1?}"));
    }
    match lost {
        Some(lost) => {
            let lost = lost.expect("")?;
            let after = lost.at - start;
            within(LEASE * 2 / 3, "the notification of the holder", after)?;
            report.push(format!(
                "the holder is notified after {after:.1?} ({})",
                lost.result
            ));
            holder.expect(&format!("unlock {lock}"), "error Lost")?;
        }
        None => {
            let refused = unlock_of_a_free_lock(cast.kind, Side::Java);
            holder.expect(&format!("unlock {lock}"), refused)?;
            report.push("the holder notices when it unlocks".into());
        }
    }
    Ok(report.join(", "))
}
