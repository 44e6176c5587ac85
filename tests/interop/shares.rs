//! How the threads of several processes share one lock: how often each process has it, and its
//! longest wait.

use std::ops::RangeInclusive;
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

/// What some processes do with one lock.
struct Line<'a> {
    kind: &'a str,
    /// Each process, and the number of its threads.
    parties: &'a [(&'a Party, u32)],
    inside: u32,
}

/// What they did.
#[derive(Default)]
struct Shares {
    holds: Vec<u64>,
    /// The holds of one thread of each process.
    each: Vec<f64>,
    longest: Vec<Duration>,
    threads: u32,
}

impl Line<'_> {
    fn run(&self, time: Duration) -> Result<Shares> {
        let (name, time) = (unique(self.kind), time.as_millis());
        let mut begun = Vec::new();
        for &(party, threads) in self.parties {
            let (kind, inside) = (self.kind, self.inside);
            let command = format!("waits {kind} {name} {threads} {time} {inside}");
            begun.push(party.thread(1).begin(&command)?);
        }
        let mut shares = Shares::default();
        for (&(party, threads), reply) in self.parties.iter().zip(begun) {
            let reply = reply.wait()?.result;
            let error = || format!("{:?}: {reply}", party.side());
            let (holds, longest) = reply.split_once(' ').ok_or_else(error)?;
            let holds = holds.parse().map_err(|_| error())?;
            shares.holds.push(holds);
            shares.each.push(holds as f64 / f64::from(threads));
            shares.longest.push(Duration::from_micros(longest.parse()?));
            shares.threads += threads;
        }
        Ok(shares)
    }

    /// A line of the table without its end.
    fn print(&self, shares: &Shares) {
        let holds = self.parties.iter().zip(&shares.holds);
        let holds =
            holds.map(|((party, threads), holds)| format!("{threads} {:?}: {holds}", party.side()));
        let longest = shares.longest.iter();
        let longest = longest.map(|longest| format!("{:.1}", longest.as_secs_f64() * 1e3));
        let [holds, longest] =
            [holds.collect(), longest.collect()].map(|all: Vec<_>| all.join(", "));
        let (kind, inside, share) = (self.kind, self.inside, shares.smaller());
        print!("| {kind:8} | {inside} ms | {holds:32} | {longest:12} ms | {share:.2} |");
    }
}

impl Shares {
    /// The share of the smallest process, if each had one thread.
    fn smaller(&self) -> f64 {
        let least = self.each.iter().copied().fold(f64::MAX, f64::min);
        least / self.each.iter().sum::<f64>().max(1.0)
    }

    /// The holds of a thread of the rarest and of the most frequent process, to the mean of all.
    fn to_mean(&self) -> [f64; 2] {
        let mean = self.holds.iter().sum::<u64>() as f64 / f64::from(self.threads);
        let each = self.each.iter().map(|each| each / mean.max(1.0));
        [
            each.clone().fold(f64::MAX, f64::min),
            each.fold(0.0, f64::max),
        ]
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
    println!("threads of some processes on one lock for {TIME:?}; inside: how long one has it");
    println!("| kind | inside | holds | longest wait | share | bounds |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let mut passed = true;
    let mut measure = |kind, parties: &[_], inside, bounds: &dyn Fn(&Shares) -> Vec<Bound>| {
        let line = Line {
            kind,
            parties,
            inside,
        };
        // Java compiles the code while it runs.
        line.run(WARM_UP)?;
        let shares = line.run(TIME)?;
        line.print(&shares);
        for (what, figure, bound) in bounds(&shares) {
            let is_met = bound.contains(&figure);
            passed &= is_met;
            let verdict = if is_met { "ok" } else { "FAILED" };
            print!(" {figure:.2} {what}, {bound:?}: {verdict};");
        }
        println!(" |");
        Ok::<_, crate::Error>(shares)
    };
    let [work, none] = INSIDE;
    for kind in &kinds {
        measure(kind, &[(java, 4), (rust, 4)], work, &|shares| {
            vec![
                ("share", shares.smaller(), at_least(0.35)),
                ("s", longest(shares), 0.0..=0.35),
            ]
        })?;
    }
    for kind in &kinds {
        let alone = measure(kind, &[(java, 4), (other_java, 4)], none, &|_| Vec::new())?;
        measure(kind, &[(java, 4), (rust, 4)], none, &|shares| {
            let to_java = shares.each[0] / alone.each[0].max(1.0);
            vec![
                ("of Java beside Java", to_java, at_least(0.7)),
                ("s", shares.longest[0].as_secs_f64(), 0.0..=0.1),
            ]
        })?;
    }
    for (parties, bound) in [
        (&[(java, 1), (rust, 8)][..], 0.5),
        (&[(java, 8), (rust, 1)], 0.5),
        // Which of the two clients lets Java pass is random.
        (&[(java, 4), (rust, 4), (other_rust, 4)], 0.3),
    ] {
        for kind in &kinds {
            measure(kind, parties, work, &|shares| {
                let [least, most] = shares.to_mean();
                vec![
                    ("to the mean", least, at_least(bound)),
                    ("to the mean", most, 0.0..=2.0),
                ]
            })?;
        }
    }
    if kinds.contains(&"fair") {
        measure("fair", &[(rust, 4), (other_rust, 1)], work, &|shares| {
            let share = shares.smaller();
            let ratio = (1.0 - share) / share.max(1e-9);
            vec![("to 1 by thread", ratio, 0.0..=1.3)]
        })?;
    }
    Ok(passed)
}

/// What a figure of a line is, the figure, and its bounds.
type Bound = (&'static str, f64, RangeInclusive<f64>);

fn at_least(bound: f64) -> RangeInclusive<f64> {
    bound..=f64::INFINITY
}

/// The longest wait of all, in seconds.
fn longest(shares: &Shares) -> f64 {
    let longest = shares.longest.iter().max();
    longest.map_or(0.0, Duration::as_secs_f64)
}
