//! Count-down latches.

use std::time::{Duration, Instant};

use super::{SLIP, WAKE_UP, ensure, within};
use crate::checks::{Check, Outcome};
use crate::party::Pending;
use crate::stage::Cast;
use crate::support::unique;

pub fn checks() -> Vec<Check> {
    vec![Check::both_ways("latch", "threads of both wait", waiting)]
}

/// The holder sets the count, and both processes count down.
fn waiting(cast: Cast<'_>) -> Outcome {
    let name = unique("latch");
    let Cast { holder, waiter, .. } = cast;
    waiter.expect(&format!("latch-try {name} 0"), "true")?;
    holder.expect(&format!("latch-set {name} 3"), "true")?;
    waiter.expect(&format!("latch-set {name} 4"), "false")?;
    waiter.expect(&format!("latch-try {name} 20"), "false")?;
    let mut waiting = Vec::new();
    for thread in [waiter, waiter.other_thread(), holder.other_thread()] {
        waiting.push(thread.begin(&format!("latch-wait {name}"))?);
        cast.stage.await_waiting(thread, &name)?;
    }
    holder.expect(&format!("latch-down {name}"), "ok")?;
    holder
        .other_thread()
        .other_thread()
        .expect(&format!("latch-count {name}"), "2")?;
    holder.expect(&format!("latch-down {name}"), "ok")?;
    ensure(
        waiting.iter().all(Pending::is_waiting),
        "a thread did not wait",
    )?;
    let start = Instant::now();
    holder.expect(&format!("latch-down {name}"), "ok")?;
    let mut longest = Duration::ZERO;
    for thread in waiting {
        longest = longest.max(thread.expect("ok")?.at - start);
    }
    within(WAKE_UP + SLIP, "the last wake-up", longest)?;
    holder.expect(&format!("latch-set {name} 1"), "true")?;
    waiter.expect(&format!("latch-count {name}"), "1")?;
    waiter.expect(&format!("latch-down {name}"), "ok")?;
    Ok(format!("3 threads go on within {longest:.1?}"))
}
