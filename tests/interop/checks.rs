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
    pub what: &'static str,
    pub kind: &'static str,
    pub run: Run,
}

pub enum Run {
    /// With a holder in each of the processes and a waiter in the other.
    BothWays(fn(Cast<'_>) -> Outcome),
    Once(fn(&Stage, &'static str) -> Outcome),
}

impl Check {
    /// A check of one kind of lock, with a holder in Java and then with a holder in Rust.
    pub fn both_ways(kind: &'static str, what: &'static str, run: fn(Cast<'_>) -> Outcome) -> Self {
        let run = Run::BothWays(run);
        Self { what, kind, run }
    }

    pub fn once(
        kind: &'static str,
        what: &'static str,
        run: fn(&Stage, &'static str) -> Outcome,
    ) -> Self {
        let run = Run::Once(run);
        Self { what, kind, run }
    }

    fn casts(&self) -> &'static [Option<Side>] {
        match self.run {
            Run::BothWays(_) => &[Some(Side::Java), Some(Side::Rust)],
            Run::Once(_) => &[None],
        }
    }

    fn name(&self, holder: Option<Side>) -> String {
        let Self { what, kind, .. } = self;
        match holder {
            Some(holder) => format!("{kind}: {what}, {holder} holds"),
            None => format!("{kind}: {what}"),
        }
    }

    fn run(&self, stage: &Stage, holder: Option<Side>) -> Outcome {
        match (&self.run, holder) {
            (Run::Once(run), _) => run(stage, self.kind),
            (Run::BothWays(run), holder) => {
                let (holder, waiter) = match holder {
                    Some(Side::Rust) => (&stage.rust, &stage.java),
                    _ => (&stage.java, &stage.rust),
                };
                run(Cast {
                    stage,
                    holder: holder.thread(1),
                    waiter: waiter.thread(1),
                    kind: self.kind,
                })
            }
        }
    }
}

/// Runs the checks whose names contain the filter. True if all passed.
pub fn run(mut stage: Stage, filter: &str) -> Result<bool> {
    let (mut passed, mut failed) = (0, 0);
    for check in scenarios::all() {
        for holder in check.casts() {
            let name = check.name(*holder);
            if !name.contains(filter) {
                continue;
            }
            let start = Instant::now();
            let outcome = check.run(&stage, *holder);
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
