//! What the benches share: a private server, the same calls made by hand, and the table that sets
//! ours beside them. Every bench uses a part of it.
#![allow(dead_code, missing_docs, unused_imports)]

pub mod contention;
pub mod raw_client;
pub mod renewal_cost;
pub mod server;
pub mod table;

use std::{
    env,
    time::{Duration, Instant},
};

use criterion::{BenchmarkGroup, Criterion, SamplingMode, measurement::WallTime};

pub use server::{Server, pin_clients, pin_servers};

/// Turns before the other side has its go: long enough for warm caches, short enough that both
/// sides see the same weather.
const BLOCK: u64 = 20;

/// Run only to see that it runs: `cargo bench -- --test`, and every run that is not a bench.
pub fn is_test() -> bool {
    let mut arguments = env::args().skip(1);
    let bench = arguments.any(|argument| argument == "--bench");
    !bench || env::args().any(|argument| argument == "--test")
}

/// Whether only the names of the benches are asked for.
pub fn is_list() -> bool {
    env::args().any(|argument| argument == "--list")
}

/// The length of something in a real run, and when it is only seen to run.
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

    pub fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    /// The sample that a share of all is not longer than; 1.0: the longest.
    pub fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let place = (last as f64 * share).round() as usize;
        Duration::from_nanos(sorted.get(place).copied().unwrap_or(0))
    }
}

/// Ours and its floor, measured in one run.
#[derive(Default)]
pub struct Comparison {
    pub ours: Samples,
    pub floor: Samples,
}

impl Comparison {
    /// Lets both sides have `turns` turns, in alternating blocks; the time of each side.
    fn run(
        &mut self,
        turns: u64,
        ours: &mut impl FnMut() -> Duration,
        floor: &mut impl FnMut() -> Duration,
    ) -> (Duration, Duration) {
        let mut total = (Duration::ZERO, Duration::ZERO);
        let mut left = turns;
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

/// Two benches of criterion, `name/ours` and `name/floor`. In each of them both sides take turns,
/// so that whatever else the machine does hits both. A side answers with the time that counts.
pub fn compare(
    criterion: &mut Criterion,
    name: &str,
    mut ours: impl FnMut() -> Duration,
    mut floor: impl FnMut() -> Duration,
) -> Comparison {
    let mut comparison = Comparison::default();
    if !is_list() {
        // Connections are opened and scripts loaded before anything counts.
        comparison.run(if is_test() { 1 } else { 200 }, &mut ours, &mut floor);
        comparison = Comparison::default();
    }
    let mut group = group(criterion, name, 20, Duration::from_secs(4));
    group.bench_function("ours", |bencher| {
        bencher.iter_custom(|turns| comparison.run(turns, &mut ours, &mut floor).0);
    });
    group.bench_function("floor", |bencher| {
        bencher.iter_custom(|turns| comparison.run(turns, &mut ours, &mut floor).1);
    });
    group.finish();
    comparison
}

/// A group of benches whose turns take long enough to be timed one by one.
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

/// How long `work` takes.
pub fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
