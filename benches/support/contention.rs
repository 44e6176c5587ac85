//! Measures eight threads of one process on one lock.

use std::{
    sync::Barrier,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use criterion::Criterion;
use leasehold::{Lock, ReentrantLock};
use parking_lot::{Mutex, MutexGuard};

use super::{
    Samples, group, is_list, length,
    raw_client::RawClient,
    table::{Bound, Table},
    time,
};

const THREADS: usize = 8;

/// Runs the work under a lock, and returns how long it waited for the lock.
pub type Enter<'a> = dyn Fn(&dyn Fn()) -> Duration + Sync + 'a;

/// The totals of all threads in all windows of one side.
#[derive(Default)]
pub struct Totals {
    pub acquired: u64,
    elapsed: Duration,
    waits: Samples,
    /// The acquisitions of the slowest thread divided by those of the fastest, in the worst window.
    worst: Option<f64>,
    commands: u64,
}

impl Totals {
    pub fn per_second(&self) -> f64 {
        self.acquired as f64 / self.elapsed.as_secs_f64()
    }

    fn worst_share(&self) -> f64 {
        self.worst.unwrap_or(0.0)
    }

    fn commands_each(&self) -> f64 {
        self.commands as f64 / self.acquired as f64
    }

    /// Runs one window, and returns the time of one acquisition.
    fn run(
        &mut self,
        sent: &dyn Fn() -> u64,
        enter: &Enter<'_>,
        hold: Duration,
        pause: Duration,
    ) -> Duration {
        let (before, stop, start) = (sent(), AtomicBool::new(false), Barrier::new(THREADS + 1));
        let work = || {
            let mut waits = Vec::new();
            start.wait();
            loop {
                let wait = enter(&|| sleep(hold));
                if stop.load(Ordering::Relaxed) {
                    return waits;
                }
                waits.push(wait);
                sleep(pause);
            }
        };
        let (elapsed, waits) = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
            start.wait();
            let begin = Instant::now();
            thread::sleep(window());
            stop.store(true, Ordering::Relaxed);
            let elapsed = begin.elapsed();
            let waits = threads.into_iter().map(|t| t.join().expect("no panic"));
            (elapsed, waits.collect::<Vec<_>>())
        });
        self.commands += sent() - before;
        let counts = || waits.iter().map(|waits| waits.len() as u64);
        let acquired: u64 = counts().sum();
        let fewest = counts().min().unwrap_or(0) as f64;
        let share = fewest / counts().max().unwrap_or(0).max(1) as f64;
        self.worst = Some(self.worst.map_or(share, |worst| worst.min(share)));
        waits
            .iter()
            .flatten()
            .for_each(|&wait| self.waits.add(wait));
        self.acquired += acquired;
        self.elapsed += elapsed;
        elapsed / u32::try_from(acquired.max(1)).expect("fewer than that")
    }
}

/// Measures both sides in alternating windows, as `name/ours` and `name/floor` in criterion. `sent`
/// returns how many commands the clients have sent to the server.
pub fn windows(
    criterion: &mut Criterion,
    name: &str,
    sent: &dyn Fn() -> u64,
    (ours, floor): (&Enter<'_>, &Enter<'_>),
    (hold, pause): (Duration, Duration),
) -> (Totals, Totals) {
    let (mut our_totals, mut floor_totals) = (Totals::default(), Totals::default());
    if !is_list() {
        Totals::default().run(sent, ours, hold, pause);
        Totals::default().run(sent, floor, hold, pause);
    }
    let mut group = group(criterion, name, 10, window() * 25);
    for is_ours in [true, false] {
        let id = if is_ours { "ours" } else { "floor" };
        group.bench_function(id, |bencher| {
            bencher.iter_custom(|turns| {
                let ours = our_totals.run(sent, ours, hold, pause);
                let floor = floor_totals.run(sent, floor, hold, pause);
                let each = if is_ours { ours } else { floor };
                each.mul_f64(turns as f64)
            });
        });
    }
    group.finish();
    (our_totals, floor_totals)
}

fn window() -> Duration {
    length(Duration::from_millis(500), Duration::from_millis(100))
}

fn sleep(duration: Duration) {
    if !duration.is_zero() {
        thread::sleep(duration);
    }
}

pub fn enter(lock: &ReentrantLock) -> impl Fn(&dyn Fn()) -> Duration + Sync {
    |work| {
        let wait = time(|| lock.lock().expect("the lock"));
        work();
        lock.unlock().expect("held");
        wait
    }
}

/// Measures an empty critical section. The floor is the same two scripts on one raw connection
/// behind a fair in-process mutex.
pub fn empty_section(
    criterion: &mut Criterion,
    table: &mut Table,
    lock: &ReentrantLock,
    (raw, key): (RawClient, &str),
    sent: &dyn Fn() -> u64,
) {
    let connection = Mutex::new(raw);
    let raw = |work: &dyn Fn()| {
        let start = Instant::now();
        let mut connection = connection.lock();
        assert!(connection.acquire(key));
        let wait = start.elapsed();
        work();
        connection.release(key);
        MutexGuard::unlock_fair(connection);
        wait
    };
    let (our, floor) = windows(
        criterion,
        "8 threads, empty section",
        sent,
        (&enter(lock), &raw),
        (Duration::ZERO, Duration::ZERO),
    );
    if our.acquired > 0 {
        report_empty(table, &our, &floor);
    }
}

fn report_empty(table: &mut Table, our: &Totals, floor: &Totals) {
    let both = |figure: fn(&Totals) -> String| (figure(our), figure(floor));

    let ratio = our.per_second() / floor.per_second();
    let sides = both(|totals| format!("{:.0}/s", totals.per_second()));
    table.figure("empty: acquisitions", sides, (ratio, " x"), Bound::None);

    let sides = both(|totals| format!("{:.2}", totals.commands_each()));
    let figure = (our.commands_each(), "");
    table.figure(
        "empty: commands per acquisition",
        sides,
        figure,
        Bound::AtMost(2.2),
    );

    let sides = both(|totals| format!("{:.2}", totals.worst_share()));
    let figure = (our.worst_share(), "");
    table.figure(
        "empty: slowest to fastest thread",
        sides,
        figure,
        Bound::AtLeast(0.8),
    );

    let longest = (our.waits.quantile(1.0).as_secs_f64() * 1e3, " ms");
    let waits = (&our.waits, &floor.waits);
    table.times(
        "empty: wait; the longest",
        waits,
        longest,
        Bound::AtMost(100.0),
    );
}
