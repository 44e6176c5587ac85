//! One process frees a lock that the other holds.

use std::time::{Duration, Instant};

use super::{KINDS, SLIP, unlock_of_a_free_lock, within};
use crate::checks::{Check, Outcome};
use crate::party::Side;
use crate::stage::Cast;
use crate::support::unique;

/// Until the waiting threads of both processes have held the lock.
const GO_ON: Duration = Duration::from_secs(1);

/// Longer than the bounds, so that its end cannot be what wakes a thread.
const LONG_LEASE: Duration = Duration::from_secs(10);

pub fn checks() -> Vec<Check> {
    vec![Check::both_ways(
        "all kinds",
        "force-unlock, waiting threads",
        waiting,
    )]
}

/// A thread of each process waits when the process that does not hold the lock frees it.
fn waiting(cast: Cast<'_>) -> Outcome {
    let process = cast.stage.start(cast.holder.side(), LONG_LEASE)?;
    let mut longest = [(Side::Java, Duration::ZERO), (Side::Rust, Duration::ZERO)];
    for kind in KINDS {
        let name = unique(kind);
        let lock = format!("{kind} {name}");
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
        let forcing = cast.waiter.other_thread();
        forcing.expect(&format!("force {lock}"), "true")?;
        for (acquired, released) in waiters {
            let side = acquired.side();
            let after = acquired.expect("ok")?.at - start;
            released.expect("ok")?;
            let what = format!("{kind}: the waiting thread of {side:?}");
            within(GO_ON + SLIP, &what, after)?;
            for (_, longest) in longest.iter_mut().filter(|(one, _)| *one == side) {
                *longest = after.max(*longest);
            }
        }
        let refused = match holder.side() {
            Side::Java => unlock_of_a_free_lock(kind, Side::Java),
            Side::Rust => "error Lost",
        };
        holder.expect(&format!("unlock {lock}"), refused)?;
    }
    let [(_, java), (_, rust)] = longest;
    Ok(format!(
        "Java goes on after {java:.1?}, Rust after {rust:.1?}"
    ))
}
