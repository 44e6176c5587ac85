//! Shared by the benches: a private server, a raw client, and the table of results. Each bench uses
//! a part of it.
#![allow(dead_code, missing_docs, unused_imports)]

pub mod apart;
pub mod clock;
pub mod commands;
pub mod contention;
pub mod crowd;
pub mod empty_section;
pub mod perf;
pub mod raw_calls;
pub mod raw_client;
pub mod raw_pairs;
pub mod raw_waiter;
pub mod renewal_cost;
pub mod server;
pub mod side;
pub mod table;
pub mod usage;
pub mod used;
pub mod worker;
pub mod worker_group;

use std::{
    env,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use criterion::{BenchmarkGroup, Criterion, SamplingMode, measurement::WallTime};

pub use server::{Server, pin_clients, pin_servers};

/// Rounds of one side before the other side runs: enough for warm caches, few enough that a busy
/// machine slows both sides.
const BLOCK: u64 = 20;

/// True for `cargo bench -- --test` and for any run other than a bench. The bench then runs only
/// briefly.
pub fn is_test() -> bool {
    let mut arguments = env::args().skip(1);
    let bench = arguments.any(|argument| argument == "--bench");
    !bench || env::args().any(|argument| argument == "--test")
}

/// True if only the names of the benches are requested.
pub fn is_list() -> bool {
    env::args().any(|argument| argument == "--list")
}

/// Starts this program again with an environment variable that gives its part. It gets requests
/// on its standard input, and replies on its standard output.
pub fn start_again(variable: &str, value: &str) -> Child {
    Command::new(env::current_exe().expect("this program"))
        .env(variable, value)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program again")
}

/// Returns `real` in a bench and `test` in a test run.
pub fn length(real: Duration, test: Duration) -> Duration {
    if is_test() { test } else { real }
}

/// Durations, in nanoseconds.
#[derive(Clone, Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    pub fn add(&mut self, sample: Duration) {
        self.0
            .push(u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    /// The smallest sample that is at least as long as this share of all; 1.0: the longest.
    pub fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let place = (last as f64 * share).round() as usize;
        Duration::from_nanos(sorted.get(place).copied().unwrap_or(0))
    }
}

/// The samples of the library and of its floor, measured in one run.
#[derive(Default)]
pub struct Comparison {
    pub ours: Samples,
    pub floor: Samples,
}

impl Comparison {
    /// Runs `rounds` rounds of both sides in alternating blocks. Returns the time of each side.
    fn run(
        &mut self,
        rounds: u64,
        ours: &mut impl FnMut() -> Duration,
        floor: &mut impl FnMut() -> Duration,
    ) -> (Duration, Duration) {
        let mut total = (Duration::ZERO, Duration::ZERO);
        let mut left = rounds;
        while left > 0 {
            let block = left.min(BLOCK);
            left -= block;
            let ours_first = (left / BLOCK).is_multiple_of(2);
            for is_ours in [ours_first, !ours_first] {
                for _ in 0..block {
                    let (sample, samples, sum) = if is_ours {
                        (ours(), &mut self.ours, &mut total.0)
                    } else {
                        (floor(), &mut self.floor, &mut total.1)
                    };
                    samples.add(sample);
                    *sum += sample;
                }
            }
        }
        total
    }
}

/// Runs two benches of criterion, `name/ours` and `name/floor`. In each of them both sides
/// alternate, so that other load of the machine slows both. A side returns the time to count.
pub fn compare(
    criterion: &mut Criterion,
    name: &str,
    mut ours: impl FnMut() -> Duration,
    mut floor: impl FnMut() -> Duration,
) -> Comparison {
    let mut comparison = Comparison::default();
    if !is_list() {
        // The warm-up opens connections and loads scripts.
        comparison.run(if is_test() { 1 } else { 200 }, &mut ours, &mut floor);
        comparison = Comparison::default();
    }
    let mut group = group(criterion, name, 20, Duration::from_secs(4));
    group.bench_function("ours", |bencher| {
        bencher.iter_custom(|rounds| comparison.run(rounds, &mut ours, &mut floor).0);
    });
    group.bench_function("floor", |bencher| {
        bencher.iter_custom(|rounds| comparison.run(rounds, &mut ours, &mut floor).1);
    });
    group.finish();
    comparison
}

/// A group of benches whose rounds are long enough to be timed one by one.
pub fn group<'a>(
    criterion: &'a mut Criterion,
    name: &str,
    samples: usize,
    time: Duration,
) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group
        .sampling_mode(SamplingMode::Flat)
        .sample_size(samples)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(time);
    group
}

/// The value in the middle; 0 if there is none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// How long `work` takes.
pub fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
