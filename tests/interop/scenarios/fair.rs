//! The order of a fair lock.

use std::time::{Duration, Instant};

use super::{ensure, within};
use crate::LEASE;
use crate::checks::{Check, Outcome};
use crate::party::{Actor, Pending, Side};
use crate::stage::{Cast, Stage};
use crate::support::unique;

/// How soon a client goes on that is notified.
const SOON: Duration = Duration::from_millis(1_000);

pub fn checks() -> Vec<Check> {
    vec![
        Check::both_ways("fair", "first come, first served", order),
        Check::both_ways("fair", "one that gives up leaves the queue", giving_up),
        Check::once("fair", "Java is next behind dead ones", dead_before_java),
    ]
}

/// A thread that waits behind those that wait already.
fn queue<'a>(stage: &Stage, actor: Actor<'a>, name: &str) -> crate::Result<Pending<'a>> {
    let before = length(stage, name)?;
    let waiting = actor.begin(&format!("lock fair {name}"))?;
    let queued = || Ok(length(stage, name)? > before);
    stage.eventually("a thread to queue", queued)?;
    if actor.side() == Side::Java {
        stage.await_waiting(actor, name)?;
    }
    Ok(waiting)
}

fn length(stage: &Stage, name: &str) -> crate::Result<usize> {
    let queue = format!("redisson_lock_queue:{{{name}}}");
    stage.ask(redis::cmd("LLEN").arg(queue))
}

/// Two threads of Java wait, and two processes of Rust, because the threads of one have one place.
fn order(cast: Cast<'_>) -> Outcome {
    let name = unique("fair");
    let lock = format!("fair {name}");
    let [first, second] = [
        cast.stage.start(Side::Rust, LEASE)?,
        cast.stage.start(Side::Rust, LEASE)?,
    ];
    let java = match cast.holder.side() {
        Side::Java => cast.holder.other_thread(),
        Side::Rust => cast.waiter,
    };
    let actors = [first.thread(1), java, second.thread(1), java.other_thread()];
    cast.holder.expect(&format!("lock {lock}"), "ok")?;
    let mut waiting = Vec::new();
    for actor in actors {
        waiting.push(queue(cast.stage, actor, &name)?);
    }
    cast.holder.expect(&format!("unlock {lock}"), "ok")?;
    let mut waiting = waiting.into_iter();
    for actor in actors {
        let next = waiting.next().ok_or("as many as threads")?;
        next.expect("ok")?;
        let others_wait = waiting.as_slice().iter().all(Pending::is_waiting);
        ensure(others_wait, "a thread overtook another")?;
        actor.expect(&format!("unlock {lock}"), "ok")?;
    }
    Ok("a Rust process, a Java thread, another process, another thread".into())
}

/// A thread of the other side gives up, in front of a thread that waits and behind it.
fn giving_up(cast: Cast<'_>) -> Outcome {
    let name = unique("fair");
    let lock = format!("fair {name}");
    let Cast { holder, waiter, .. } = cast;
    let other = cast.stage.start(Side::Rust, LEASE)?;
    holder.expect(&format!("lock {lock}"), "ok")?;
    waiter.expect(&format!("trylock {lock} 100 0"), "false")?;
    let waiting = queue(cast.stage, other.thread(1), &name)?;
    waiter.expect(&format!("trylock {lock} 100 0"), "false")?;
    holder.expect(&format!("unlock {lock}"), "ok")?;
    waiting.expect("ok")?;
    other.thread(1).expect(&format!("unlock {lock}"), "ok")?;
    let left = length(cast.stage, &name)?;
    ensure(left == 0, format!("{left} places are left"))?;
    Ok("twice, no place is left".into())
}

/// A thread of Java waits behind two Rust processes that die. It sleeps until it is notified, or
/// for the lease that it has read.
fn dead_before_java(Cast { stage, .. }: Cast<'_>) -> Outcome {
    let name = unique("fair");
    let lock = format!("fair {name}");
    let holder = stage.rust.thread(1);
    holder.expect(&format!("lock {lock}"), "ok")?;
    let mortals = [
        stage.start(Side::Rust, LEASE)?,
        stage.start(Side::Rust, LEASE)?,
    ];
    let mut dead = Vec::new();
    for mortal in &mortals {
        dead.push(queue(stage, mortal.thread(1), &name)?);
    }
    let ends = format!("redisson_lock_timeout:{{{name}}}");
    let listen = || {
        let ends: Vec<(String, f64)> = stage.ask(
            redis::cmd("ZRANGE")
                .arg(&ends)
                .arg(0)
                .arg(-1)
                .arg("WITHSCORES"),
        )?;
        Ok(ends.iter().all(|(_, end)| end % 1.0 != 0.0))
    };
    stage.eventually("the Rust processes to listen", listen)?;
    let waiting = queue(stage, stage.java.thread(1), &name)?;
    for mortal in &mortals {
        mortal.kill();
    }
    drop(dead);
    let start = Instant::now();
    holder.expect(&format!("unlock {lock}"), "ok")?;
    let took = waiting.expect("ok")?.at - start;
    stage
        .java
        .thread(1)
        .expect(&format!("unlock {lock}"), "ok")?;
    within(SOON, "the release", took)?;
    Ok(format!("Java goes on {took:.1?} after the release"))
}
