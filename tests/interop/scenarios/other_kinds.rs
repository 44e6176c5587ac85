//! A name that the other process uses for another kind of object.

use std::time::{Duration, Instant};

use super::{SLIP, within};
use crate::checks::{Check, Outcome};
use crate::stage::Cast;
use crate::support::unique;

/// What makes Java use a name, and the words by which Rust names what it found there.
const USES: &[(&str, &str, &str)] = &[
    ("lock read NAME", "plain", "a read-write lock"),
    ("lock write NAME", "plain", "a read-write lock"),
    ("lock write NAME", "fair", "a read-write lock"),
    ("lock plain NAME", "read", "lock"),
    ("lock fair NAME", "write", "lock"),
    ("semaphore-set NAME 1", "plain", ""),
    ("leased-set NAME 1", "fair", ""),
    ("latch-set NAME 1", "write", ""),
];

pub fn checks() -> Vec<Check> {
    vec![Check::once("other kinds", "Rust refuses at once", refusal)]
}

fn refusal(Cast { stage, .. }: Cast<'_>) -> Outcome {
    let mut longest = Duration::ZERO;
    for (command, kind, found) in USES {
        let name = unique("other");
        stage.java.thread(1).call(&command.replace("NAME", &name))?;
        let start = Instant::now();
        let lock = format!("lock {kind} {name}");
        let reply = stage.rust.thread(1).expect(&lock, "error WrongType")?;
        longest = longest.max(start.elapsed());
        if !reply.result.contains(found) {
            return Err(format!("after `{command}`, `{lock}`: {}", reply.result).into());
        }
    }
    within(SLIP, "the refusal", longest)?;
    Ok(format!(
        "{} pairs of kinds, longest {longest:.1?}",
        USES.len()
    ))
}
