//! How the threads of two processes share one lock: how often each side has it, and its longest
//! wait.

use std::time::Duration;

use crate::party::{Party, Side};
use crate::stage::Stage;
use crate::support::unique;
use crate::{LEASE, Result};

const TIME: Duration = Duration::from_secs(5);
const WARM_UP: Duration = Duration::from_millis(500);

/// The kinds of locks. With the last two, this percentage of the holds only reads.
const KINDS: &[&str] = &["plain", "fenced", "fair", "mixed-50", "mixed-90"];

/// How long a thread has the lock, in milliseconds.
const INSIDE: [u32; 2] = [2, 0];

/// What two processes do with one lock.
struct Line<'a> {
    kind: &'a str,
    parties: [&'a Party; 2],
    threads: [u32; 2],
    inside: u32,
}

/// What they did.
struct Shares {
    holds: [u64; 2],
    /// The holds of one thread of each side.
    each: [f64; 2],
    longest: [Duration; 2],
}

impl Line<'_> {
    fn run(&self, time: Duration) -> Result<Shares> {
        let (name, time) = (unique(self.kind), time.as_millis());
        let begin = |party: usize| {
            let (kind, threads, inside) = (self.kind, self.threads[party], self.inside);
            let command = format!("waits {kind} {name} {threads} {time} {inside}");
            self.parties[party].thread(1).begin(&command)
        };
        let (one, other) = (begin(0)?, begin(1)?);
        let mut shares = Shares {
            holds: [0; 2],
            each: [0.0; 2],
            longest: [Duration::ZERO; 2],
        };
        for (party, reply) in [one, other].into_iter().enumerate() {
            let reply = reply.wait()?.result;
            let error = || format!("{}: {reply}", self.parties[party].side());
            let (holds, longest) = reply.split_once(' ').ok_or_else(error)?;
            let holds = holds.parse().map_err(|_| error())?;
            shares.holds[party] = holds;
            shares.each[party] = holds as f64 / f64::from(self.threads[party]);
            shares.longest[party] = Duration::from_micros(longest.parse()?);
        }
        Ok(shares)
    }

    /// A line of the table without its end.
    fn print(&self, shares: &Shares) {
        let sides = [0, 1].map(|party| {
            let (side, threads) = (self.parties[party].side(), self.threads[party]);
            let longest = shares.longest[party].as_secs_f64() * 1e3;
            let holds = format!("{threads} {side}: {}", shares.holds[party]);
            format!("{holds:16} | {longest:7.1} ms")
        });
        let (kind, inside, share) = (self.kind, self.inside, shares.smaller());
        let [one, other] = sides;
        print!("| {kind:8} | {inside} ms | {one} | {other} | {share:.2} |");
    }
}

impl Shares {
    /// The share of the smaller side, if each had one thread.
    fn smaller(&self) -> f64 {
        let [one, other] = self.each;
        one.min(other) / (one + other).max(1.0)
    }

    /// The holds of a thread of the rarer and of the more frequent side, to the mean of all.
    fn to_mean(&self, threads: [u32; 2]) -> [f64; 2] {
        let all = self.holds.iter().sum::<u64>() as f64;
        let mean = all / f64::from(threads.iter().sum::<u32>());
        let [one, other] = self.each.map(|each| each / mean.max(1.0));
        [one.min(other), one.max(other)]
    }
}

/// True if all figures are within their bounds. A filter selects lines: `shares`, or a kind.
pub fn run(stage: &Stage, filter: &str) -> Result<bool> {
    let is_wanted = |kind: &str| "shares".contains(filter) || kind.contains(filter);
    let kinds: Vec<_> = KINDS
        .iter()
        .copied()
        .filter(|kind| is_wanted(kind))
        .collect();
    if kinds.is_empty() {
        return Ok(true);
    }
    let (java, rust) = (&stage.java, &stage.rust);
    let others = [Side::Java, Side::Rust].map(|side| stage.start(side, LEASE));
    let [other_java, other_rust] = others;
    let (other_java, other_rust) = (&other_java?, &other_rust?);
    println!("threads of two processes on one lock for {TIME:?}; inside: how long one has it");
    println!("| kind | inside | holds | longest wait | holds | longest wait | share | bounds |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut passed = true;
    let mut measure = |kind, parties, threads, inside, bounds: &dyn Fn(&Shares) -> Vec<Bound>| {
        let line = Line {
            kind,
            parties,
            threads,
            inside,
        };
        // Java compiles the code while it runs.
        line.run(WARM_UP)?;
        let shares = line.run(TIME)?;
        line.print(&shares);
        for Bound {
            figure,
            what,
            is_met,
        } in bounds(&shares)
        {
            passed &= is_met;
            let verdict = if is_met { "ok" } else { "FAILED" };
            print!(" {figure:.2} {what}: {verdict};");
        }
        println!(" |");
        Ok::<_, crate::Error>(shares)
    };
    let [work, none] = INSIDE;
    for kind in &kinds {
        measure(kind, [java, rust], [4, 4], work, &|shares| {
            vec![
                Bound::at_least("share", shares.smaller(), 0.35),
                Bound::at_most("s", longest(shares), 0.3),
            ]
        })?;
    }
    for kind in &kinds {
        let alone = measure(kind, [java, other_java], [4, 4], none, &|_| Vec::new())?;
        measure(kind, [java, rust], [4, 4], none, &|shares| {
            let to_java = shares.each[0] / alone.each[0].max(1.0);
            vec![
                Bound::at_least("of Java beside Java", to_java, 0.7),
                Bound::at_most("s", shares.longest[0].as_secs_f64(), 0.1),
            ]
        })?;
    }
    for threads in [[1, 8], [8, 1]] {
        for kind in &kinds {
            measure(kind, [java, rust], threads, work, &|shares| {
                let [least, most] = shares.to_mean(threads);
                vec![
                    Bound::at_least("to the mean", least, 0.5),
                    Bound::at_most("to the mean", most, 2.0),
                ]
            })?;
        }
    }
    if kinds.contains(&"fair") {
        let ours = [rust, other_rust];
        measure("fair", ours, [4, 1], work, &|shares| {
            let share = shares.smaller();
            let ratio = (1.0 - share) / share.max(1e-9);
            vec![Bound::at_most("to 1 by thread", ratio, 1.3)]
        })?;
    }
    Ok(passed)
}

/// The longest wait of all, in seconds.
fn longest(shares: &Shares) -> f64 {
    let longest = shares.longest.iter().max();
    longest.map_or(0.0, Duration::as_secs_f64)
}

/// A figure, and whether it is within its bound.
struct Bound {
    figure: f64,
    what: String,
    is_met: bool,
}

impl Bound {
    fn at_least(what: &str, figure: f64, bound: f64) -> Self {
        let (what, is_met) = (format!("{what}, >= {bound}"), figure >= bound);
        Self {
            figure,
            what,
            is_met,
        }
    }

    fn at_most(what: &str, figure: f64, bound: f64) -> Self {
        let (what, is_met) = (format!("{what}, <= {bound}"), figure <= bound);
        Self {
            figure,
            what,
            is_met,
        }
    }
}
