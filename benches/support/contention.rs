//! Threads of one process that lock and unlock in a loop, for windows of time.

use std::{thread, time::Duration};

use leasehold::Lock;

use super::{
    Samples,
    clock::{after, nanos, now, sleep, sleep_until},
    is_test, length, median, time,
};

/// The time between the start of the threads and the start of their window.
pub const LEAD: Duration = Duration::from_millis(20);

/// Runs the work under a lock, and returns how long it waited for the lock.
pub type Enter<'a> = dyn Fn(&dyn Fn()) -> Duration + Sync + 'a;

/// What the threads do: they hold the lock, release it, pause, and start again.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub threads: usize,
    pub hold: Duration,
    pub pause: Duration,
}

impl Load {
    /// No work under the lock and no pause.
    pub const fn empty(threads: usize) -> Self {
        Self::busy(threads, 0)
    }

    /// Some milliseconds of work under the lock, and no pause.
    pub const fn busy(threads: usize, millis: u64) -> Self {
        Self {
            threads,
            hold: Duration::from_millis(millis),
            pause: Duration::ZERO,
        }
    }
}

/// What one thread did in one window.
pub struct ThreadRun {
    /// The holds that ended before the window did.
    pub acquired: u64,
    /// All waits in nanoseconds, with the one that the end of the window interrupts.
    pub waits: Vec<u64>,
}

/// Runs the threads from `start` until `end`. At the start one of them has the lock and the others
/// wait for it. Otherwise threads that share a core would hardly ever wait for an empty section.
pub fn run(enter: &Enter<'_>, load: Load, start: u64, end: u64) -> Vec<ThreadRun> {
    let work = || {
        let (mut acquired, mut waits) = (0, Vec::new());
        let called = now();
        let first = enter(&|| match now() < start {
            true => sleep_until(start),
            false => sleep(load.hold),
        });
        let mut is_open = now() < end;
        // Of the first wait, only the part after the start counts.
        let granted = called + nanos(first);
        if granted > start {
            waits.push(granted - start);
            acquired += u64::from(is_open);
        }
        while is_open {
            sleep(load.pause);
            waits.push(nanos(enter(&|| sleep(load.hold))));
            is_open = now() < end;
            acquired += u64::from(is_open);
        }
        ThreadRun { acquired, waits }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..load.threads).map(|_| scope.spawn(work)).collect();
        let runs = threads.into_iter().map(|t| t.join().expect("no panic"));
        runs.collect()
    })
}

/// What all threads of one side did in all windows.
#[derive(Default)]
pub struct Totals {
    pub waits: Samples,
    rates: Vec<f64>,
    /// The holds of the slowest thread divided by those of the fastest, in the worst window.
    worst: Option<f64>,
}

impl Totals {
    /// Adds one window.
    pub fn add<'a>(&mut self, runs: impl Iterator<Item = &'a ThreadRun>, length: Duration) {
        let mut counts = Vec::new();
        for run in runs {
            counts.push(run.acquired);
            let waits = run.waits.iter().copied();
            waits.for_each(|wait| self.waits.add(Duration::from_nanos(wait)));
        }
        let acquired: u64 = counts.iter().sum();
        self.rates.push(acquired as f64 / length.as_secs_f64());
        let slowest = counts.iter().min().copied().unwrap_or(0);
        let fastest = counts.iter().max().copied().unwrap_or(0);
        let share = slowest as f64 / fastest.max(1) as f64;
        self.worst = Some(self.worst.map_or(share, |worst| worst.min(share)));
    }

    /// Acquisitions per second of all threads, in the median window.
    pub fn per_second(&self) -> f64 {
        median(&self.rates)
    }

    pub fn slowest_to_fastest(&self) -> f64 {
        self.worst.unwrap_or(0.0)
    }

    pub fn longest_wait_millis(&self) -> f64 {
        self.waits.quantile(1.0).as_secs_f64() * 1e3
    }
}

/// Runs all sides in turn, some windows of each. Other load of the machine then affects each side.
pub fn windows<const N: usize>(sides: [(&Enter<'_>, Load); N]) -> [Totals; N] {
    let mut totals = [(); N].map(|()| Totals::default());
    let length = window();
    alternate(10, N, |side, is_counted| {
        let (enter, load) = sides[side];
        let runs = run_now(enter, load, length);
        if is_counted {
            totals[side].add(runs.iter(), length);
        }
    });
    totals
}

/// Runs one window, and returns how often the threads acquired the lock.
pub fn one_window(enter: &Enter<'_>, load: Load) -> usize {
    let runs = run_now(enter, load, window());
    let waited: usize = runs.iter().map(|run| run.waits.len()).sum();
    // One thread had the lock at the start.
    waited + 1
}

fn run_now(enter: &Enter<'_>, load: Load, length: Duration) -> Vec<ThreadRun> {
    let start = after(LEAD);
    run(enter, load, start, start + nanos(length))
}

/// Calls `window` with each side in turn, `rounds` times for each side, or once in a test run. A
/// round before them is not counted: it opens connections and loads scripts.
pub fn alternate(rounds: usize, sides: usize, mut window: impl FnMut(usize, bool)) {
    let rounds = if is_test() { 1 } else { rounds };
    for round in 0..=rounds {
        for number in 0..sides {
            let is_forward = round % 2 == 0;
            let side = if is_forward {
                number
            } else {
                sides - 1 - number
            };
            window(side, round > 0);
        }
    }
}

fn window() -> Duration {
    length(Duration::from_millis(500), Duration::from_millis(100))
}

/// Enters a section under a lock of the library.
pub fn enter<L: Lock>(lock: &L) -> impl Fn(&dyn Fn()) -> Duration + Sync {
    move |work| {
        let wait = time(|| lock.lock().expect("the lock"));
        work();
        lock.unlock().expect("held");
        wait
    }
}
