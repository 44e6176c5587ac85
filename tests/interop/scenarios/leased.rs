//! Semaphores whose permits have a lease.

use std::time::{Duration, Instant};

use super::{SLIP, WAKE_UP, ensure, share_permits, within};
use crate::LEASE;
use crate::checks::{Check, Outcome};
use crate::party::{Actor, Side};
use crate::stage::Cast;
use crate::support::unique;

pub fn checks() -> Vec<Check> {
    vec![
        Check::both_ways("leased", "one number of permits", counting),
        Check::both_ways("leased", "wake-up", wake_up),
        Check::both_ways("leased", "death of a process", death),
        Check::once("leased", "4 + 4 threads and 3 permits", share_permits),
    ]
}

/// The lease of a permit that nothing renews, as a word. Redisson renews no permit.
fn long() -> u128 {
    (20 * LEASE).as_millis()
}

/// Acquires a permit for `lease` milliseconds without waiting, and returns its id.
fn permit(actor: Actor<'_>, name: &str, lease: u128) -> crate::Result<String> {
    let id = actor
        .call(&format!("leased-try {name} 1000 {lease}"))?
        .result;
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    ensure(
        is_id,
        format!("{:?}: {id} instead of a permit", actor.side()),
    )?;
    Ok(id)
}

fn counting(cast: Cast<'_>) -> Outcome {
    let name = unique("leased");
    let Cast { holder, waiter, .. } = cast;
    holder.expect(&format!("leased-set {name} 2"), "true")?;
    waiter.expect(&format!("leased-set {name} 5"), "false")?;
    let first = permit(holder, &name, long())?;
    let second = permit(waiter, &name, long())?;
    for actor in [holder, waiter] {
        actor.expect(&format!("leased-try {name} 10 {}", long()), "null")?;
        actor.expect(&format!("leased-available {name}"), "0")?;
    }
    holder.expect(&format!("leased-release {name} {first}"), "true")?;
    waiter.expect(&format!("leased-available {name}"), "1")?;
    let third = permit(waiter, &name, long())?;
    holder.expect(&format!("leased-try {name} 0 {}", long()), "null")?;
    // Each releases a permit of the other by its id.
    holder.expect(&format!("leased-release {name} {second}"), "true")?;
    waiter.expect(&format!("leased-release {name} {third}"), "true")?;
    holder.expect(&format!("leased-add {name} 3"), "ok")?;
    waiter.expect(&format!("leased-available {name}"), "5")?;
    Ok("3 attempts refused".into())
}

fn wake_up(cast: Cast<'_>) -> Outcome {
    let Cast { holder, waiter, .. } = cast;
    let mut longest = Duration::ZERO;
    let times = 10;
    for _ in 0..times {
        let name = unique("leased");
        holder.expect(&format!("leased-set {name} 1"), "true")?;
        let id = permit(holder, &name, long())?;
        let waiting = waiter.begin(&format!("leased-acquire {name} {}", long()))?;
        cast.stage.await_waiting(waiter, &name)?;
        ensure(waiting.is_waiting(), "acquired a permit too many")?;
        let start = Instant::now();
        holder.expect(&format!("leased-release {name} {id}"), "true")?;
        let acquired = waiting.expect("")?;
        longest = longest.max(acquired.at - start);
        let release = format!("leased-release {name} {}", acquired.result);
        waiter.expect(&release, "true")?;
    }
    within(WAKE_UP + SLIP, "the longest wake-up", longest)?;
    Ok(format!("{times} times, longest {longest:.1?}"))
}

fn death(cast: Cast<'_>) -> Outcome {
    let name = unique("leased");
    cast.waiter
        .expect(&format!("leased-set {name} 1"), "true")?;
    let mortal = cast.stage.start(cast.holder.side(), LEASE)?;
    let lease = match cast.holder.side() {
        Side::Java => LEASE.as_millis(),
        Side::Rust => 0,
    };
    permit(mortal.thread(1), &name, lease)?;
    let waiting = cast
        .waiter
        .begin(&format!("leased-acquire {name} {}", long()))?;
    cast.stage.await_waiting(cast.waiter, &name)?;
    mortal.kill();
    let start = Instant::now();
    let acquired = waiting.expect("")?;
    let after = acquired.at.saturating_duration_since(start);
    within(LEASE + SLIP, "a permit of a dead process", after)?;
    let release = format!("leased-release {name} {}", acquired.result);
    cast.waiter.expect(&release, "true")?;
    Ok(format!("free after {after:.1?}, lease {LEASE:?}"))
}
