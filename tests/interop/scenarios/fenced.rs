//! Fencing tokens of holds in a Java process and a Rust process.

use redis::cmd;

use super::ensure;
use crate::Result;
use crate::checks::{Check, Outcome};
use crate::stage::{Cast, Stage};
use crate::support::unique;

const HOLDS: usize = 1000;

pub fn checks() -> Vec<Check> {
    vec![Check::once(
        "fenced",
        "tokens of 2 + 2 competing threads",
        competing,
    )]
}

fn competing(Cast { stage, .. }: Cast<'_>) -> Outcome {
    let (name, list) = (unique("fenced"), unique("tokens"));
    let command = format!("tokens {name} {list} {}", HOLDS / 4);
    let begun: Result<Vec<_>> = [&stage.java, &stage.rust]
        .into_iter()
        .flat_map(|party| [party.thread(1), party.thread(2)])
        .map(|thread| thread.begin(&command))
        .collect();
    for tokens in begun? {
        tokens.expect("ok")?;
    }
    rising(stage, &list)
}

/// Checks the list of tokens, which are in the order of the holds.
fn rising(stage: &Stage, list: &str) -> Outcome {
    let holds: Vec<String> = stage.ask(cmd("LRANGE").arg(list).arg(0).arg(-1))?;
    let holds: Option<Vec<_>> = holds.iter().map(|hold| hold.split_once(':')).collect();
    let holds = holds.ok_or("not SIDE:TOKEN")?;
    ensure(holds.len() == HOLDS, format!("{} tokens", holds.len()))?;
    let mut turns = 0;
    for pair in holds.windows(2) {
        if let &[(side, token), (next_side, next)] = pair {
            let rises = next.parse::<u64>()? > token.parse()?;
            let what = format!("{next} of {next_side} follows {token} of {side}");
            ensure(rises, what)?;
            turns += usize::from(side != next_side);
        }
    }
    Ok(format!(
        "{HOLDS} tokens rise, the side changed {turns} times"
    ))
}
