//! An unlock in one process, to the return of a lock in another.

use std::time::Duration;

use leasehold_peers_compare::Result;
use leasehold_peers_compare::results::HandOver;

use super::{Scale, Side, alternate, progress};
use crate::machine::nanos;

/// The unlocking process holds the lock for this long, and up to this much longer, at random, so
/// that the attempts of a library which polls have no fixed relation to the unlock.
const HELD_FOR: Duration = Duration::from_millis(5);
const HELD_LONGER: Duration = Duration::from_millis(200);
/// A call that came less than this before the unlock was perhaps not waiting yet.
const SETTLED: Duration = Duration::from_millis(1);

pub fn measure(sides: &mut [Side], scale: &Scale) -> Result<()> {
    progress("an unlock in one process, to the return of a lock in another");
    alternate(sides, scale.hand_overs + 1, |side| {
        let sample = hand_over(side)?;
        // The first one opens connections.
        match &mut side.figures.hand_over {
            None => side.figures.hand_over = Some(HandOver::default()),
            Some(all) => all.samples_ns.push(sample),
        }
        Ok(())
    })
}

fn hand_over(side: &mut Side) -> Result<u64> {
    let name = side.name("hand-over");
    let [here, there] = &mut side.drivers;
    loop {
        here.call(&format!("take {name}"))?;
        there.begin(&format!("enter {name}"))?;
        let longer = fastrand::u64(..nanos(HELD_LONGER));
        let micros = (nanos(HELD_FOR) + longer) / 1_000;
        here.begin(&format!("give {micros}"))?;
        let [unlocking] = here.numbers()?[..] else {
            return Err("give has one number".into());
        };
        let [called, granted] = there.numbers()?[..] else {
            return Err("enter has two numbers".into());
        };
        if granted < unlocking && called < unlocking {
            return Err(format!("{}: two holders in a hand-over", side.peer.name).into());
        }
        if called + nanos(SETTLED) < unlocking {
            return Ok(granted - unlocking);
        }
    }
}
