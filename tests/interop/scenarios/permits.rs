//! Semaphores: permits without an owner.

use std::time::{Duration, Instant};

use super::{SLIP, WAKE_UP, ensure, share_permits, within};
use crate::checks::{Check, Outcome};
use crate::stage::Cast;
use crate::support::unique;

pub fn checks() -> Vec<Check> {
    vec![
        Check::both_ways("semaphore", "one number of permits", counting),
        Check::both_ways("semaphore", "wake-up", wake_up),
        Check::once("semaphore", "both sides wait for permits", both_wait),
        Check::once("semaphore", "4 + 4 threads and 3 permits", share_permits),
    ]
}

fn counting(cast: Cast<'_>) -> Outcome {
    let name = unique("semaphore");
    let Cast { holder, waiter, .. } = cast;
    holder.expect(&format!("semaphore-set {name} 3"), "true")?;
    waiter.expect(&format!("semaphore-set {name} 5"), "false")?;
    holder.expect(&format!("semaphore-acquire {name} 2"), "ok")?;
    waiter.expect(&format!("semaphore-try {name} 2 10"), "false")?;
    waiter.expect(&format!("semaphore-try {name} 1 0"), "true")?;
    holder.expect(&format!("semaphore-try {name} 1 0"), "false")?;
    // A permit has no owner.
    waiter.expect(&format!("semaphore-release {name} 3"), "ok")?;
    holder.expect(&format!("semaphore-available {name}"), "3")?;
    waiter.expect(&format!("semaphore-add {name} 2"), "ok")?;
    holder.expect(&format!("semaphore-drain {name}"), "5")?;
    waiter.expect(&format!("semaphore-available {name}"), "0")?;
    Ok("3 attempts refused".into())
}

fn wake_up(cast: Cast<'_>) -> Outcome {
    let Cast { holder, waiter, .. } = cast;
    let mut longest = Duration::ZERO;
    let times = 10;
    for _ in 0..times {
        let name = unique("semaphore");
        holder.expect(&format!("semaphore-set {name} 1"), "true")?;
        holder.expect(&format!("semaphore-acquire {name} 1"), "ok")?;
        let waiting = waiter.begin(&format!("semaphore-acquire {name} 2"))?;
        cast.stage.await_waiting(waiter, &name)?;
        holder.expect(&format!("semaphore-release {name} 1"), "ok")?;
        ensure(waiting.is_waiting(), "acquired 2 permits of 1")?;
        // Nothing wakes a thread of Redisson after it misses a message.
        cast.stage.await_waiting(waiter, &name)?;
        let start = Instant::now();
        holder.expect(&format!("semaphore-release {name} 1"), "ok")?;
        longest = longest.max(waiting.expect("ok")?.at - start);
    }
    within(WAKE_UP + SLIP, "the longest wake-up", longest)?;
    Ok(format!("{times} times, longest {longest:.1?}"))
}

/// The message of a release has a sign while a client of this library is in the line. Redisson
/// reads it as a number.
fn both_wait(Cast { stage, .. }: Cast<'_>) -> Outcome {
    let name = unique("semaphore");
    let (java, rust) = (stage.java.thread(1), stage.rust.thread(1));
    java.expect(&format!("semaphore-set {name} 1"), "true")?;
    java.expect(&format!("semaphore-acquire {name} 1"), "ok")?;
    let acquire = format!("semaphore-acquire {name} 1");
    let waiting = [java.begin(&acquire)?, rust.begin(&acquire)?];
    stage.await_waiting(java, &name)?;
    stage.await_waiting(rust, &name)?;
    let start = Instant::now();
    let release = format!("semaphore-release {name} 2");
    stage.rust.thread(2).expect(&release, "ok")?;
    let mut longest = Duration::ZERO;
    for waiting in waiting {
        longest = longest.max(waiting.expect("ok")?.at - start);
    }
    within(WAKE_UP + SLIP, "the longest wake-up", longest)?;
    Ok(format!("longest {longest:.1?}"))
}
