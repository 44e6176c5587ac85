//! Runs the checks and reports them.

use std::time::Instant;

use crate::Result;
use crate::party::Side;
use crate::scenarios;
use crate::stage::{Cast, Stage};

/// A passed check says what it counted and measured.
pub type Outcome = Result<String>;

/// One thing that must be true.
pub struct Check {
    what: &'static str,
    kind: &'static str,
    /// The sides that hold the lock, one after the other.
    holders: &'static [Side],
    run: fn(Cast<'_>) -> Outcome,
}

impl Check {
    /// A check of one kind of lock, with a holder in Java and then with a holder in Rust.
    pub fn both_ways(kind: &'static str, what: &'static str, run: fn(Cast<'_>) -> Outcome) -> Self {
        let holders = &[Side::Java, Side::Rust];
        Self {
            holders,
            ..Self::once(kind, what, run)
        }
    }

    pub fn once(kind: &'static str, what: &'static str, run: fn(Cast<'_>) -> Outcome) -> Self {
        let holders = &[Side::Java];
        Self {
            what,
            kind,
            holders,
            run,
        }
    }

    fn name(&self, holder: Side) -> String {
        let Self { what, kind, .. } = self;
        match self.holders {
            [_] => format!("{kind}: {what}"),
            _ => format!("{kind}: {what}, {holder:?} holds"),
        }
    }

    fn run(&self, stage: &Stage, holder: Side) -> Outcome {
        let (holder, waiter) = match holder {
            Side::Java => (&stage.java, &stage.rust),
            Side::Rust => (&stage.rust, &stage.java),
        };
        (self.run)(Cast {
            stage,
            holder: holder.thread(1),
            waiter: waiter.thread(1),
            kind: self.kind,
        })
    }
}

/// Runs the checks whose names contain the filter. True if all passed.
pub fn run(mut stage: Stage, filter: &str) -> Result<bool> {
    let (mut passed, mut failed) = (0, 0);
    for check in scenarios::all() {
        for &holder in check.holders {
            let name = check.name(holder);
            if !name.contains(filter) {
                continue;
            }
            let start = Instant::now();
            let outcome = check.run(&stage, holder);
            let seconds = start.elapsed().as_secs_f64();
            match outcome {
                Ok(report) => {
                    passed += 1;
                    println!("ok     {seconds:5.1} s  {name}: {report}");
                }
                Err(error) => {
                    failed += 1;
                    println!("FAILED {seconds:5.1} s  {name}: {error}");
                    stage.restart()?;
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0 && passed > 0)
}
