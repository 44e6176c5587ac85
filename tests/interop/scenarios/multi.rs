//! A multi-lock in one process, its names or the same multi-lock in the other.

use std::time::Duration;

use super::contention::contend;
use super::ensure;
use crate::checks::{Check, Outcome};
use crate::stage::{Cast, Stage};
use crate::support::unique;

/// Long, because a collision of the two can take more than a second: Java keeps a name for so long
/// while it waits for the other one.
const TIME: Duration = Duration::from_secs(6);

/// Of both processes together.
const LOWEST_RATE: f64 = 100.0;

pub fn checks() -> Vec<Check> {
    vec![
        Check::both_ways("multi", "exclusion", exclusion),
        Check::both_ways("multi", "all or none", all_or_none),
        Check::once("multi", "names in opposite orders", opposite_orders),
    ]
}

fn exclusion(cast: Cast<'_>) -> Outcome {
    let Cast { holder, waiter, .. } = cast;
    let [first, second] = [unique("first"), unique("second")];
    let both = format!("multi {first},{second}");
    let others = [
        format!("plain {first}"),
        format!("plain {second}"),
        both.clone(),
        format!("multi {second},{first}"),
    ];
    holder.expect(&format!("lock {both}"), "ok")?;
    for other in &others {
        waiter.expect(&format!("trylock {other} 20 0"), "false")?;
    }
    holder.expect(&format!("unlock {both}"), "ok")?;
    for other in &others {
        waiter.expect(&format!("lock {other}"), "ok")?;
        holder.expect(&format!("trylock {both} 20 0"), "false")?;
        waiter.expect(&format!("unlock {other}"), "ok")?;
    }
    Ok(format!("{} attempts refused", 2 * others.len()))
}

/// An attempt that fails keeps none of the names.
fn all_or_none(cast: Cast<'_>) -> Outcome {
    let Cast { holder, waiter, .. } = cast;
    let [free, held] = [unique("free"), unique("held")];
    holder.expect(&format!("lock plain {held}"), "ok")?;
    waiter.expect(&format!("trylock multi {free},{held} 50 0"), "false")?;
    holder.expect(&format!("trylock plain {free} 0 0"), "true")?;
    for name in [free, held] {
        holder.expect(&format!("unlock plain {name}"), "ok")?;
    }
    Ok("the free name stayed free".into())
}

fn opposite_orders(Cast { stage, .. }: Cast<'_>) -> Outcome {
    let [first, second] = [unique("first"), unique("second")];
    let (java, rust) = (format!("{second},{first}"), format!("{first},{second}"));
    compete(stage, &java, &rust)
}

/// Java acquires its names one by one, and keeps the first while it waits for the second.
fn compete(stage: &Stage, java: &str, rust: &str) -> Outcome {
    let [java, rust] = [java, rust].map(|names| format!("multi {names}"));
    let [java, rust] = contend(stage, [&java, &rust], 1, TIME)?;
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let rate = (java + rust) as f64 / TIME.as_secs_f64();
    ensure(
        rate >= LOWEST_RATE,
        format!("only {rate:.0} acquisitions per second: Java {java}, Rust {rust}"),
    )?;
    Ok(format!(
        "{rate:.0} per second: Java {java} + Rust {rust} in {TIME:?}"
    ))
}
