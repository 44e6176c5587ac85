//! Readers and writers of a read-write lock. `locks.rs` has the checks of the write lock alone.

use std::time::{Duration, Instant};

use redis::cmd;

use super::{SLIP, WAKE_UP, ensure, within};
use crate::LEASE;
use crate::checks::{Check, Outcome};
use crate::party::Side;
use crate::stage::Cast;
use crate::support::unique;

const TIME: Duration = Duration::from_secs(2);

pub fn checks() -> Vec<Check> {
    vec![
        Check::both_ways("read-write", "readers share, a writer does not", sharing),
        Check::both_ways("read-write", "a writer wakes readers", waking_readers),
        Check::both_ways(
            "read-write",
            "the last reader wakes a writer",
            waking_a_writer,
        ),
        Check::both_ways("read-write", "a writer that still reads", downgrade),
        Check::both_ways("read-write", "a reader of the other leaves", leaving),
        Check::once("read-write", "4 + 4 threads read and write", compete),
    ]
}

fn sharing(cast: Cast<'_>) -> Outcome {
    let name = unique("read-write");
    let Cast { holder, waiter, .. } = cast;
    holder.expect(&format!("lock read {name}"), "ok")?;
    waiter.expect(&format!("trylock write {name} 10 0"), "false")?;
    waiter.expect(&format!("trylock read {name} 0 0"), "true")?;
    holder.expect(&format!("unlock read {name}"), "ok")?;
    let third = holder.other_thread();
    third.expect(&format!("trylock write {name} 10 0"), "false")?;
    waiter.expect(&format!("unlock read {name}"), "ok")?;
    holder.expect(&format!("lock write {name}"), "ok")?;
    waiter.expect(&format!("trylock read {name} 10 0"), "false")?;
    waiter.expect(&format!("trylock write {name} 10 0"), "false")?;
    holder.expect(&format!("unlock write {name}"), "ok")?;
    Ok("2 readers together; 4 attempts refused".into())
}

/// All readers go on, whichever process they are in.
fn waking_readers(cast: Cast<'_>) -> Outcome {
    let name = unique("read-write");
    let Cast { holder, waiter, .. } = cast;
    holder.expect(&format!("lock write {name}"), "ok")?;
    let readers = [waiter, waiter.other_thread()];
    let mut waiting = Vec::new();
    for reader in readers {
        waiting.push(reader.begin(&format!("lock read {name}"))?);
        cast.stage.await_waiting(reader, &name)?;
    }
    let start = Instant::now();
    holder.expect(&format!("unlock write {name}"), "ok")?;
    let mut longest = Duration::ZERO;
    for reader in waiting {
        longest = longest.max(reader.expect("ok")?.at - start);
    }
    within(WAKE_UP + SLIP, "the wake-up of the last reader", longest)?;
    for reader in readers {
        reader.expect(&format!("unlock read {name}"), "ok")?;
    }
    Ok(format!("both within {longest:.1?}"))
}

fn waking_a_writer(cast: Cast<'_>) -> Outcome {
    let name = unique("read-write");
    let Cast { holder, waiter, .. } = cast;
    let readers = [holder, holder.other_thread()];
    for reader in readers {
        reader.expect(&format!("lock read {name}"), "ok")?;
    }
    let waiting = waiter.begin(&format!("lock write {name}"))?;
    cast.stage.await_waiting(waiter, &name)?;
    holder.expect(&format!("unlock read {name}"), "ok")?;
    ensure(waiting.is_waiting(), "a writer beside a reader")?;
    let start = Instant::now();
    holder
        .other_thread()
        .expect(&format!("unlock read {name}"), "ok")?;
    let after = waiting.expect("ok")?.at - start;
    within(WAKE_UP + SLIP, "the wake-up of the writer", after)?;
    waiter.expect(&format!("unlock write {name}"), "ok")?;
    Ok(format!("after {after:.1?}"))
}

/// The holder of the write lock acquires the read lock and unlocks the write lock.
fn downgrade(cast: Cast<'_>) -> Outcome {
    let name = unique("read-write");
    let Cast { holder, waiter, .. } = cast;
    holder.expect(&format!("lock write {name}"), "ok")?;
    holder.expect(&format!("lock read {name}"), "ok")?;
    let waiting = waiter.begin(&format!("lock read {name}"))?;
    cast.stage.await_waiting(waiter, &name)?;
    ensure(waiting.is_waiting(), "a reader beside a writer")?;
    let start = Instant::now();
    holder.expect(&format!("unlock write {name}"), "ok")?;
    let after = waiting.expect("ok")?.at - start;
    // Redisson publishes no message then, so the reader waits for the end of the writer's lease.
    let bound = match holder.side() {
        Side::Java => LEASE,
        Side::Rust => WAKE_UP,
    };
    within(bound + SLIP, "the wake-up of the reader", after)?;
    waiter.expect(&format!("unlock read {name}"), "ok")?;
    waiter.expect(&format!("trylock write {name} 10 0"), "false")?;
    holder.expect(&format!("unlock read {name}"), "ok")?;
    waiter.expect(&format!("trylock write {name} 1000 0"), "true")?;
    waiter.expect(&format!("unlock write {name}"), "ok")?;
    Ok(format!("a waiting reader goes on after {after:.1?}"))
}

/// The script of a reader that leaves computes the lease from those of the readers that stay.
fn leaving(cast: Cast<'_>) -> Outcome {
    let name = unique("read-write");
    let Cast { holder, waiter, .. } = cast;
    holder.expect(&format!("lock read {name}"), "ok")?;
    let start = Instant::now();
    let (mut readers, mut attempts) = (0, 0);
    while start.elapsed() < 2 * LEASE {
        waiter.expect(&format!("trylock read {name} 0 0"), "true")?;
        waiter.expect(&format!("unlock read {name}"), "ok")?;
        readers += 1;
        for thread in [waiter, holder.other_thread()] {
            thread.expect(&format!("trylock write {name} 10 0"), "false")?;
            attempts += 1;
        }
    }
    holder.expect(&format!("unlock read {name}"), "ok")?;
    waiter.expect(&format!("trylock write {name} 1000 0"), "true")?;
    waiter.expect(&format!("unlock write {name}"), "ok")?;
    Ok(format!(
        "{readers} readers came and left, {attempts} writers refused, in 2 leases"
    ))
}

fn compete(Cast { stage, .. }: Cast<'_>) -> Outcome {
    let (name, key) = (unique("read-write"), unique("values"));
    let command = format!("readwrite {name} {key} 4 {}", TIME.as_millis());
    let [java, rust] = [&stage.java, &stage.rust].map(|party| party.thread(1).begin(&command));
    let [java, rust] = [java?.number()?, rust?.number()?];
    let sum: u64 = stage.ask(cmd("GET").arg(format!("{key}:first")))?;
    ensure(
        sum == java + rust,
        format!("{sum} after the writes Java {java} + Rust {rust}"),
    )?;
    ensure(
        java > 0 && rust > 0,
        format!("writes: Java {java}, Rust {rust}"),
    )?;
    Ok(format!(
        "writes: Java {java} + Rust {rust} in {TIME:?}; no reader beside a writer"
    ))
}
