//! What every kind of lock does between a Java process and a Rust process.

use std::time::{Duration, Instant};

use super::{KINDS, SLIP, WAKE_UP, ensure, unlock_of_a_free_lock, within};
use crate::LEASE;
use crate::checks::{Check, Outcome};
use crate::stage::Cast;
use crate::support::unique;

/// A thread that misses the message sleeps for at least two thirds of a lease. Of few wake-ups, on
/// a busy machine, some take longer than [`WAKE_UP`], but none as long.
const LOST_WAKE_UP: Duration = Duration::from_millis(750);

const WAKE_UPS: usize = 20;

pub fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for kind in KINDS {
        checks.extend([
            Check::both_ways(kind, "wake-up", wake_up),
            Check::both_ways(kind, "re-entry", re_entry),
            Check::both_ways(kind, "refusal to unlock another's", refusal),
        ]);
    }
    checks.push(Check::both_ways("all kinds", "death of the holder", death));
    checks.push(Check::both_ways("plain", "fixed lease", fixed_lease));
    checks.push(Check::once(
        "all kinds",
        "ten leases of both watchdogs",
        watchdog,
    ));
    checks
}

/// The kind and the name of a new lock, as words of the commands.
fn new_lock(cast: Cast<'_>) -> (String, String) {
    let name = unique(cast.kind);
    (format!("{} {name}", cast.kind), name)
}

fn wake_up(cast: Cast<'_>) -> Outcome {
    let Cast { holder, waiter, .. } = cast;
    let mut times = Vec::new();
    for _ in 0..WAKE_UPS {
        let (lock, name) = new_lock(cast);
        holder.expect(&format!("lock {lock}"), "ok")?;
        let waiting = waiter.begin(&format!("lock {lock}"))?;
        cast.stage.await_waiting(cast.waiter, &name)?;
        ensure(waiting.is_waiting(), "acquired a held lock")?;
        let start = Instant::now();
        holder.expect(&format!("unlock {lock}"), "ok")?;
        let acquired = waiting.expect("ok")?;
        times.push(acquired.at - start);
        waiter.expect(&format!("unlock {lock}"), "ok")?;
    }
    times.sort_unstable();
    let (median, longest) = (times[WAKE_UPS / 2], times[WAKE_UPS - 1]);
    within(WAKE_UP, "the third longest wake-up", times[WAKE_UPS - 3])?;
    within(LOST_WAKE_UP, "the longest wake-up", longest)?;
    Ok(format!(
        "{WAKE_UPS} times, median {median:.1?}, longest {longest:.1?}"
    ))
}

fn re_entry(cast: Cast<'_>) -> Outcome {
    let (lock, _) = new_lock(cast);
    let Cast { holder, waiter, .. } = cast;
    let levels = 3;
    for level in 1..=levels {
        holder.expect(&format!("lock {lock}"), "ok")?;
        holder.expect(&format!("holds {lock}"), &level.to_string())?;
    }
    for left in (0..levels).rev() {
        waiter.expect(&format!("trylock {lock} 0 0"), "false")?;
        holder.expect(&format!("unlock {lock}"), "ok")?;
        holder.expect(&format!("holds {lock}"), &left.to_string())?;
    }
    waiter.expect(&format!("trylock {lock} 0 0"), "true")?;
    waiter.expect(&format!("unlock {lock}"), "ok")?;
    Ok(format!("{levels} levels"))
}

/// A thread of the other process, and another thread of the same.
fn refusal(cast: Cast<'_>) -> Outcome {
    let (lock, _) = new_lock(cast);
    let Cast { holder, waiter, .. } = cast;
    holder.expect(&format!("lock {lock}"), "ok")?;
    for stranger in [waiter, holder.other_thread()] {
        stranger.expect(&format!("unlock {lock}"), stranger.side().not_held())?;
        stranger.expect(&format!("trylock {lock} 0 0"), "false")?;
    }
    holder.expect(&format!("unlock {lock}"), "ok")?;
    let refused = unlock_of_a_free_lock(cast.kind, holder.side());
    holder.expect(&format!("unlock {lock}"), refused)?;
    Ok("3 refused".into())
}

/// A process dies that holds a lock of each kind.
fn death(cast: Cast<'_>) -> Outcome {
    let mortal = cast.stage.start(cast.holder.side(), LEASE)?;
    let mut waiting = Vec::new();
    for (number, kind) in (1..).zip(KINDS) {
        let name = unique(kind);
        let lock = format!("{kind} {name}");
        mortal
            .thread(number)
            .expect(&format!("lock {lock}"), "ok")?;
        let waiter = cast.waiter.party.thread(number);
        waiting.push((kind, waiter.begin(&format!("lock {lock}"))?));
        cast.stage.await_waiting(waiter, &name)?;
        waiting.push((kind, waiter.begin(&format!("unlock {lock}"))?));
    }
    mortal.kill();
    let start = Instant::now();
    let mut longest = Duration::ZERO;
    for (kind, command) in waiting {
        let after = command.expect("ok")?.at.saturating_duration_since(start);
        within(
            LEASE + SLIP,
            &format!("a {kind} lock of a dead process"),
            after,
        )?;
        longest = longest.max(after);
    }
    Ok(format!("all are free after {longest:.1?}, lease {LEASE:?}"))
}

/// No message announces the end of a lease.
fn fixed_lease(cast: Cast<'_>) -> Outcome {
    let (lock, name) = new_lock(cast);
    let Cast { holder, waiter, .. } = cast;
    let lease = LEASE / 3;
    let start = Instant::now();
    let millis = lease.as_millis();
    holder.expect(&format!("trylock {lock} 0 {millis}"), "true")?;
    let waiting = waiter.begin(&format!("lock {lock}"))?;
    cast.stage.await_waiting(cast.waiter, &name)?;
    let acquired = waiting.expect("ok")?;
    let after = acquired.at - start;
    ensure(
        after >= lease,
        format!("free after {after:.1?}, before its lease ended"),
    )?;
    within(lease + SLIP, "a fixed lease", after)?;
    let unlocked = holder.call(&format!("unlock {lock}"))?;
    ensure(
        unlocked.result.starts_with("error"),
        "unlocked an expired lock",
    )?;
    waiter.expect(&format!("unlock {lock}"), "ok")?;
    Ok(format!("free after {after:.1?}, lease {lease:?}"))
}

/// The watchdogs of both sides renew a lock of each kind at once.
fn watchdog(Cast { stage, .. }: Cast<'_>) -> Outcome {
    let parties = [(&stage.java, &stage.rust), (&stage.rust, &stage.java)];
    let held: Vec<_> = (1..)
        .zip(KINDS)
        .flat_map(|(number, kind)| {
            let lock = || format!("{kind} {}", unique(kind));
            parties
                .map(|(holder, waiter)| (holder.thread(number), waiter.thread(number + 10), lock()))
        })
        .collect();
    for (holder, _, lock) in &held {
        holder.expect(&format!("lock {lock}"), "ok")?;
    }
    let start = Instant::now();
    let mut attempts = 0;
    while start.elapsed() < 10 * LEASE {
        let mut waiting = Vec::new();
        for (_, waiter, lock) in &held {
            waiting.push(waiter.begin(&format!("trylock {lock} 100 0"))?);
        }
        for attempt in waiting {
            attempt.expect("false")?;
            attempts += 1;
        }
    }
    let time = start.elapsed();
    for (holder, waiter, lock) in &held {
        holder.expect(&format!("unlock {lock}"), "ok")?;
        waiter.expect(&format!("trylock {lock} 0 0"), "true")?;
        waiter.expect(&format!("unlock {lock}"), "ok")?;
    }
    Ok(format!("{attempts} attempts refused in {time:.1?}"))
}
